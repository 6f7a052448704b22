"""`Judged`, an answer that is a verdict on limits."""

from __future__ import annotations

from typing import Any, TypeVar

from memreel._errors import GateError
from memreel.listing import Listing, Row

J = TypeVar("J", bound="Judged[Any]")


class Judged(Listing[Row]):
    """The checks of a gate."""

    is_passed: bool

    def raise_if_failed(self: J) -> J:
        """Raises `GateError` with the answer as text if a limit is exceeded; otherwise returns the answer."""
        if not self.is_passed:
            raise GateError(str(self))
        return self
