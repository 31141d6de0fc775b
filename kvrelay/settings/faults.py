"""How a wrong setting is told: its place, its path, the value found, and what would be right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from kvrelay.yaml_source import Document, Key, YamlPath, path_text

_LONGEST_SHOWN = 60


class SettingError(ValueError):
    """A fault in a value below the one being validated: `path` leads there from it."""

    def __init__(self, path: YamlPath, found: object, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.found = found


@dataclass(frozen=True)
class Shape:
    """Annotates a string that must match `pattern` as a whole; `right` says in words what would be right."""

    pattern: str
    right: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^({self.pattern})$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"must be {self.right}")
        return text


def fault_lines(error: ValidationError, model: type[BaseModel], document: Document) -> Iterator[str]:
    """One line for each fault that pydantic found: `file:line: path: value problem; mend`."""
    for detail in error.errors(include_url=False):
        path = _path_in(document, detail["loc"])
        if detail["type"] == "too_short" and len(document.at(path)) >= detail["ctx"]["min_length"]:
            continue  # its entries are wrong, which other lines say
        found, problem = detail["input"], _problem(detail, model, path)
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, SettingError):
            path, found = (*path, *cause.path), cause.found
        if detail["type"] == "union_tag_invalid":
            # The key that says which of several forms a mapping has.
            path, found = (*path, detail["ctx"]["discriminator"].strip("'")), detail["ctx"]["tag"]
        yield fault_line(document, path, found, problem)


def fault_line(document: Document, path: YamlPath, found: object, problem: str) -> str:
    """The one line of a fault."""
    shown = _shown(found) if found is not None and _is_scalar(found) else ""
    where = f"{document.place(path)}: {path_text(path)}" if path else document.file
    return f"{where}: {shown}{problem}"


def _shown(found: object) -> str:
    text = repr(found)
    return f"{text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '…'} "


def _path_in(document: Document, location: Sequence[int | str]) -> YamlPath:
    """pydantic's location without the tags of unions, which stand in no file."""
    path: list[Key] = []
    value = document.value
    for position, key in enumerate(location):
        if key == "[key]":  # pydantic's mark for a fault in a key rather than its value
            continue
        if isinstance(value, dict) and key not in value and position < len(location) - 1:
            continue
        path.append(key)
        value = (
            value[key]
            if isinstance(value, dict) and key in value
            else value[key]
            if _is_index(value, key)
            else None
        )
    return tuple(path)


def _is_index(value: object, key: int | str) -> bool:
    return isinstance(value, list) and isinstance(key, int) and key < len(value)


_NEEDED = {
    "string_type": "one text is needed",
    "int_type": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "bool_type": "true or false is needed",
    "tuple_type": "a list is needed, in [brackets] or with a dash before each entry",
    "dict_type": "a mapping of keys to values is needed",
    "model_type": "a mapping of settings is needed",
    "model_attributes_type": "a mapping of settings is needed",
}


def _problem(detail: Any, model: type[BaseModel], path: YamlPath) -> str:
    kind, context, found = detail["type"], detail.get("ctx", {}), detail["input"]
    choices = _choices(context)
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"is not a setting{_suggestion(model, path)}; remove it or correct its name"
    if kind == "missing":
        return "is missing; add it"
    if found is None:
        return "is empty; write a value or leave the key out"
    if isinstance(found, bool | int | float) and (kind == "string_type" or "'" in choices):
        return f"is read as a number or switch; write it in quotes{choices}"
    if kind in {"literal_error", "enum", "union_tag_invalid"}:
        return f"is not one of the choices{choices}"
    if kind == "union_tag_not_found":
        return f"needs the key {context['discriminator']}, which says what it is"
    if kind in _NEEDED:
        return (
            f"is wrong; {_NEEDED[kind]}" if _is_scalar(found) else f"is a {_kind_of(found)}; {_NEEDED[kind]}"
        )
    if kind == "too_short":
        return f"has {context['actual_length']} entries; at least {context['min_length']} are needed"
    if kind == "too_long":
        return f"has {context['actual_length']} entries; at most {context['max_length']} are allowed"
    if kind == "greater_than_equal":
        return f"is too small; use {context['ge']} or more"
    if kind == "less_than_equal":
        return f"is too large; use {context['le']} or less"
    return f"is wrong: {_lower_first(detail['msg']).removeprefix('input ')}"


def _is_scalar(found: object) -> bool:
    return not isinstance(found, Mapping | Sequence) or isinstance(found, str)


def _kind_of(found: object) -> str:
    return "mapping" if isinstance(found, Mapping) else "list"


def _choices(context: Mapping[str, Any]) -> str:
    if tags := context.get("expected_tags"):
        *others, last = tags.split(", ")
        return f"; use {', '.join(others)} or {last}"
    return f"; use {context['expected']}" if context.get("expected") else ""


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _suggestion(model: type[BaseModel], path: YamlPath) -> str:
    names = sorted(_field_names(model))
    close = difflib.get_close_matches(str(path[-1]), names, n=1)
    return f" (did you mean {close[0]}?)" if close and close[0] != path[-1] else ""


def _field_names(model: type[BaseModel]) -> set[str]:
    definitions = model.model_json_schema().get("$defs", {})
    nested = {name for definition in definitions.values() for name in definition.get("properties", {})}
    return nested | set(model.model_fields)
