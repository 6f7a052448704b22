"""`Listing`, an answer that is a list: it iterates, sorts, and becomes a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from memreel._errors import UsageError
from memreel.answer import Answer, Record, place_of
from memreel.markup import facts, rows
from memreel.table import Table

if TYPE_CHECKING:
    import pandas
    import polars

Row = TypeVar("Row", bound=Record)


class Listing(Answer, Generic[Row]):
    """An answer with a list: groups, sites, owners, points or checks, in the program's order."""

    _rows: ClassVar[str]

    def _list(self) -> list[Row]:
        rows: list[Row] = getattr(self, self._rows)
        return rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self._list())

    def __len__(self) -> int:
        return len(self._list())

    def __bool__(self) -> bool:
        # An answer without rows is an answer.
        return True

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return self._list()[at]

    def sorted_by(self, field: str, *, reverse: bool = True) -> list[Row]:
        """Returns the rows sorted by a field, the largest first, or with `reverse=False` the smallest. Rows whose field is
        None come last."""
        rows = self._list()
        known = [row for row in rows if getattr(row, self._known(field)) is not None]
        known.sort(key=lambda row: getattr(row, field), reverse=reverse)
        return known + [row for row in rows if getattr(row, field) is None]

    def _known(self, field: str) -> str:
        names = [one.name for one in fields(self._kind())]  # type: ignore[arg-type]
        if field not in names:
            raise UsageError(f"{self._kind().__name__} has no field {field!r}; it has {', '.join(names)}")
        return field

    def _repr_html_(self) -> str:
        found = self._source[self._rows]
        head = {key: value for key, value in self._source.items() if key not in ("file", "device", "schema")}
        return facts(head) + (rows([self._flat(row) for row in found]) if found else "")

    @classmethod
    def _kind(cls) -> type[Record]:
        return cls._nested[cls._rows]()

    def table(self) -> Table:
        """Returns the answer's list as a table: a row for each group, site, owner or point, with the call that it names."""
        found = self._source[self._rows]
        if found:
            return Table.of_rows([self._flat(row) for row in found])
        return Table.of_columns({name: [] for name in self._columns()})

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the table as a pandas DataFrame."""
        return self.table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Returns the table as a polars DataFrame."""
        return self.table().to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    @classmethod
    def _columns(cls) -> list[str]:
        """The columns of a table without rows: the fields of the objects in the list."""
        names: list[str] = []
        for field in fields(cls._kind()):  # type: ignore[arg-type]
            if field.name == "stack":
                names += ["function", "filename", "line"]
            elif field.name not in cls._kind()._nested and "list[" not in str(field.type):
                names.append(field.name)
        return names

    @classmethod
    def _flat(cls, row: Mapping[str, Any]) -> dict[str, int | float | bool | str | None]:
        """A row without its inner objects; of a stack, the innermost call that identifies it."""
        flat: dict[str, int | float | bool | str | None] = {}
        for key, value in row.items():
            if key == "stack":
                flat.update(place_of(value))
            elif value is None or isinstance(value, (int, float, str)):
                flat[key] = value
        return flat
