//! A tape is read as the snapshot that `memreel recover` makes of it.

use memreel::{Recovered, Reel, recorder::History};

use crate::ask::{open, rows};

#[tokio::test]
async fn a_tape_has_rows_while_its_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank5.tape");
    let reel = Reel::builder().history(History::all().tape(&path)).build().unwrap();
    let _kept = reel.alloc(1000).unwrap();
    drop(reel.alloc(3000).unwrap());
    let recovered = Recovered::read(&path).unwrap();
    let fleet = open(&[folder.path()]).await;
    assert_eq!(rows(&fleet, "select count(*) from events").await, [[recovered.n_events().to_string()]]);
    assert_eq!(rows(&fleet, "select rank, peak_bytes from runs").await, [["5", "4000"]]);
    let held = "select requested_bytes from allocations where state = 'active_allocated'";
    assert_eq!(rows(&fleet, held).await, [["1000"]]);
}
