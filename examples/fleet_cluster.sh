#!/usr/bin/env bash
# A cluster of memreel-fleet on one machine: a scheduler, two executors, and a query over the two ranks of the fixtures.
#
#     cargo build --manifest-path crates/fleet/Cargo.toml && examples/fleet_cluster.sh
set -euo pipefail
cd "$(dirname "$0")/.."
fleet="${MEMREEL_FLEET:-fleet/target/debug/memreel-fleet}"
scheduler=df://localhost:50050

trap 'kill $(jobs -p) 2>/dev/null' EXIT
RUST_LOG=off "$fleet" scheduler &
sleep 1
for port in 50061 50071; do
  RUST_LOG=off "$fleet" executor --port "$port" --cores 1 "$scheduler" &
done
sleep 2

"$fleet" query --ballista "$scheduler" \
  "select rank, time_us, size_bytes, top_frame(site) as at from events where action = 'oom'" fixtures/torch-2.11/ranks/
"$fleet" query --ballista "$scheduler" \
  "select rank, owner, sum(represented_bytes) as bytes from peak() group by 1, 2 order by bytes desc" fixtures/torch-2.11/ranks/
