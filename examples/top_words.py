"""The most frequent words of a word count's result.

python examples/top_words.py RESULT_DIR [N]
"""

import sys

import pyarrow.dataset


def top_words(directory: str, limit: int) -> list[tuple[str, int]]:
    """Words with their counts, most frequent first; equal counts by word."""
    table = pyarrow.dataset.dataset(directory, format="parquet").to_table(columns=["word", "count"])
    table = table.sort_by([("count", "descending"), ("word", "ascending")]).slice(0, limit)
    return list(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for word, count in top_words(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10):
        print(f"{count:>12,}  {word}")
