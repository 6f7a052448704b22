"""`Table`: rows that pandas, polars, pyarrow and duckdb take without a copy of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memreel import _memreel

if TYPE_CHECKING:
    import pandas
    import polars

Value = "int | float | bool | str | None"


class Table:
    """Rows of a snapshot or of an answer.

    Libraries take it through the Arrow PyCapsule interface: `pyarrow.table(t)`, `polars.DataFrame(t)`,
    `pandas.DataFrame.from_arrow(t)`, and in duckdb by its name. Without any of them, `to_dicts` has the rows.
    """

    def __init__(self, rows: _memreel.Table) -> None:
        self._rows = rows

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Makes a table of dictionaries; a key that one of them lacks is None there."""
        names = dict.fromkeys(key for row in rows for key in row)
        return cls.of_columns({name: [row.get(name) for row in rows] for name in names})

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[Any]]) -> Table:
        """Makes a table of lists of one length, by the names of the columns."""
        return cls(_memreel.table({name: list(values) for name, values in columns.items()}))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._rows.column_names

    def columns(self, start: int = 0, stop: int | None = None) -> dict[str, list[Any]]:
        """Returns the columns of the rows from `start` up to but not including `stop` as lists."""
        return self._rows.columns(start, len(self) if stop is None else stop)

    def to_dicts(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """Returns the rows from `start` up to but not including `stop` as dictionaries."""
        columns = self.columns(start, stop)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), 4096):
            yield from self.to_dicts(start, min(start + 4096, len(self)))

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas DataFrame, with any version; from pandas 3 on, `pandas.DataFrame.from_arrow` does the same."""
        import pandas

        from_arrow = getattr(pandas.DataFrame, "from_arrow", None)
        frame: pandas.DataFrame = pandas.DataFrame(self.columns()) if from_arrow is None else from_arrow(self)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars DataFrame; `polars.DataFrame(table)` does the same."""
        import polars

        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._rows.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<memreel.Table of {len(self):,} rows: {', '.join(self.column_names)}>"
