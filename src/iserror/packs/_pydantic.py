"""`pydantic`: an upstream's answer that does not fit the model that the tool reads it with.

`detect()` leaves this pack out. pydantic is always installed, and a `ValidationError` may also be the tool's own
mistake: a model that it fills wrongly, an argument that it parses again. Only the author knows what the tools validate.
The pack changes nothing about the arguments and results that a host validates.
"""

from __future__ import annotations

from typing import Final

from iserror.errors.pack import Pack
from iserror.packs import codes

pydantic: Final = Pack(
    name="pydantic",
    sources=("https://docs.pydantic.dev/latest/errors/errors/",),
    rows={
        "pydantic_core._pydantic_core.ValidationError": codes.UPSTREAM_INVALID_RESPONSE,
        # Models of the first version, which the second one still has.
        "pydantic.v1.error_wrappers.ValidationError": codes.UPSTREAM_INVALID_RESPONSE,
    },
)
