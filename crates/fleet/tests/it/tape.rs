//! Files that are not PyTorch's: a tape, and a snapshot that names its rank. A tape is read as the snapshot that `memreel recover` makes of it.

use memreel::{Recovered, Reel, recorder::Recording};
use memreel_snapshot::{Snapshot, pickle};
use serde_json::json;

use crate::ask::{open, rows};

#[tokio::test]
async fn a_tape_has_rows_while_its_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank5.tape");
    let reel = Reel::builder().history(Recording::all().tape(&path)).build().unwrap();
    let _kept = reel.alloc(1000).unwrap();
    drop(reel.alloc(3000).unwrap());
    let recovered = Recovered::read(&path).unwrap();
    let fleet = open(&[folder.path()]).await;
    assert_eq!(rows(&fleet, "select count(*) from events").await, [[recovered.n_events().to_string()]]);
    assert_eq!(rows(&fleet, "select rank, peak_bytes from runs").await, [["5", "4000"]]);
    let held = "select requested_bytes from allocations where state = 'active_allocated'";
    assert_eq!(rows(&fleet, held).await, [["1000"]]);
}

#[tokio::test]
async fn a_snapshot_may_name_its_rank_and_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, rank: i64| {
        let block =
            json!({"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": []});
        let value = json!({
            "segments": [], "device_traces": [[block]], "rank": rank, "hostname": "node3",
            "allocator_settings": {"expandable_segments": true},
        });
        let snapshot: Snapshot = serde_json::from_value(value).unwrap();
        pickle::save(&snapshot, folder.path().join(name)).unwrap();
    };
    save("a.pickle", 7);
    save("b.pickle", 8);
    save("rank2.pickle", 9);
    let fleet = open(&[folder.path()]).await;
    let sql = "select rank, host, settings from runs order by rank";
    let settings = r#"{"expandable_segments":true}"#;
    assert_eq!(rows(&fleet, sql).await, ["2", "7", "8"].map(|rank| [rank, "node3", settings]));
    let sql = "select count(*) from events where rank = 8";
    assert_eq!(rows(&fleet, sql).await, [["1"]]);
    let sql = "select e.rank from events e join runs r using (file) where r.rank > 2 order by 1";
    assert_eq!(rows(&fleet, sql).await, [["7"], ["8"]]);
}
