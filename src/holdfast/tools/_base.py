"""`BaseTool`: something a model may call."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.errors import PydanticUserError

from holdfast.context import is_async_callable
from holdfast.errors import ToolDefinitionError
from holdfast.models import ToolSpec
from holdfast.tools._signatures import arguments_of
from holdfast.tools._usage import UsageCount

CacheRule = bool | Callable[[dict[str, Any], Any], bool]


class BaseTool(BaseModel):
    """A tool as a class: fields for its settings, `_run` for its work, sync or `async def`.

        class Search(BaseTool):
            name: str = "search"
            description: str = "Searches the web."
            def _run(self, question: str) -> str: …

    The schema of its arguments comes from the type hints of `_run`, or from `args_schema`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    not_stored: ClassVar[str] = ""
    """Why this kind of tool has no stored form, and what to do; empty if it has one."""

    name: str
    description: str
    args_schema: type[BaseModel] | None = None
    cache: CacheRule = False
    """Whether the same arguments give the kept output; a function of (arguments, output) decides for each output."""
    max_usage_count: int | None = Field(default=None, ge=1)
    timeout: float | None = Field(default=None, gt=0)
    """Seconds a call may take."""
    max_result_chars: int = Field(default=50_000, ge=1)
    """How much of the output a model gets to read."""

    _usage: UsageCount = PrivateAttr(default_factory=UsageCount)

    def model_post_init(self, context: Any, /) -> None:
        if not self.name.strip() or not self.description.strip():
            raise ToolDefinitionError(f"tool {self.name!r} needs a name and a description: a model chooses by them")
        self.parameters()  # a tool that cannot be called is refused where it is made

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """The work. A subclass fills it."""
        raise NotImplementedError(f"{type(self).__name__} has no _run; write the tool's work there")

    # -- for the model ---------------------------------------------------------------------------------------------

    @property
    def call_name(self) -> str:
        """Its name in the alphabet that providers accept."""
        return re.sub(r"[^a-zA-Z0-9_-]+", "_", self.name).strip("_")[:64] or "tool"

    @functools.cached_property
    def arguments_model(self) -> type[BaseModel]:
        """The model of its arguments."""
        if self.args_schema is not None:
            return self.args_schema
        if type(self)._run is BaseTool._run and type(self).work is BaseTool.work:
            raise ToolDefinitionError(f"{type(self).__name__} has no _run; write the tool's work there")
        return arguments_of(self.work, self.call_name)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(self.call_name, self.description, self.parameters())

    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of its arguments. Made once: not to be changed."""
        return self._schema

    @functools.cached_property
    def _schema(self) -> dict[str, Any]:
        try:
            schema = self.arguments_model.model_json_schema()
        except PydanticUserError as error:
            told = error.message.splitlines()[0]
            raise ToolDefinitionError(
                f"tool {self.name}: its arguments have no JSON Schema ({told}); use types that JSON can carry"
            ) from error
        schema.pop("title", None)
        return schema

    def validate_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as `_run` takes them. Raises pydantic.ValidationError."""
        checked = self.arguments_model.model_validate(arguments)
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    # -- the work --------------------------------------------------------------------------------------------------

    @property
    def work(self) -> Callable[..., Any]:
        """The function that does it."""
        return self._run

    @property
    def is_async(self) -> bool:
        return is_async_callable(self.work)

    @property
    def usage_count(self) -> int:
        """How often it was used."""
        return self._usage.used

    def run(self, **arguments: Any) -> Any:
        """Use it directly, in this thread: arguments are checked, errors are raised. An async tool gives an awaitable."""
        checked = self.validate_arguments(arguments)
        self._usage.take(None)
        return self.work(**checked)


class FunctionTool(BaseTool):
    """A tool made from a function by `@tool`. Calling it calls the function."""

    func: Callable[..., Any] = Field(repr=False)

    @property
    def work(self) -> Callable[..., Any]:
        return self.func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)
