"""A program that does not know memreel, to be recorded from outside, without a GPU.

    cargo build --release -p memreel-cli
    cargo build --profile shared -p memreel-preload -p memreel-heap
    target/release/memreel record --heap -o heap.pickle -- python3 examples/record.py
    target/release/memreel top --device 1 heap.pickle       # device 1 is the heap, where there is no GPU or one

`top` shows that `load` holds 64 MiB at the peak, `parse` 16 MiB and `remember` 5 MiB, with the lines that allocated them.
Objects of up to 512 bytes are in arenas that Python maps; set PYTHONMALLOC=malloc to see them.
"""

cache = []


def load():
    return [bytearray(1 << 20) for _ in range(64)]


def parse(blocks):
    return [bytes(block[: 1 << 18]) for block in blocks]


def remember(n):
    cache.append(bytearray(100_000 + n))


def main():
    for n in range(50):
        remember(n)
    blocks = load()
    parsed = parse(blocks)
    print(len(blocks), "blocks,", sum(map(len, parsed)), "bytes parsed,", len(cache), "remembered")


main()
