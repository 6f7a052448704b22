"""Context managers that are decorators of functions and of coroutines."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(ContextDecorator):
    """A coroutine is inside while it runs, and not only while it is made."""

    def __enter__(self) -> object:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @wraps(function)
        async def inside(*given: Any, **named: Any) -> Any:
            with self:
                return await function(*given, **named)

        return cast(F, inside)
