"""The errors of a new request that can be found without the job's state: in names, numbers, texts that cannot be
stored, and size.
"""

from __future__ import annotations

import math

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.names import check_name, release_number, shorten
from streamkeeper.model.requests.asked_fields import asked_fields
from streamkeeper.model.requests.request import DeployRequest

MOST_BYTES = 1024 * 1024
"""The maximum size of a request in bytes. It is limited because every reader of the journal reads the request for as
long as the job exists.
"""


def check_request(request: DeployRequest) -> None:
    """Raise InvalidInput for a request that is wrong by itself, whatever the state of the job. Does no I/O.

    In this order: the names of job and release, a request that names a release and also sets params or confs, numbers
    out of range, texts that cannot be stored, and the size of the whole request. An error for a value names its field,
    param or conf.
    """
    check_name("job", request.job)
    if request.release is not None:
        release_number(request.release)
        if request.params or request.conf:
            raise InvalidInput(
                f"release {request.release} already contains params and conf, so the request may not set any",
                hint="push a new release to change params or conf",
            )
    for name, field in asked_fields(DeployRequest).items():
        value = getattr(request, name)
        if field.ask.unit is not None:
            check_number(name, value)
        elif isinstance(value, str):
            check_text(name, value)
    check_text("requested_by", request.requested_by)
    for name, value in {**request.params, **request.conf}.items():
        check_text("a param's or conf's name", name)
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"param {name} is {value}, which JSON cannot store", hint="give a finite number")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidInput(f"param {name} is {shorten(str(value))}, beyond 64 bits", hint="give the number as text")
        if isinstance(value, str):
            check_text(name, value)
    if (size := len(msgspec.json.encode(request))) > MOST_BYTES:
        raise InvalidInput(
            f"the request is {size:,} bytes, more than {MOST_BYTES:,}",
            hint="put large values into a file, and give the file's path as a param",
        )


def check_number(name: str, value: float) -> None:
    """Raise InvalidInput for a number beyond the limits of its field, or that is not a number."""
    field = asked_fields(DeployRequest)[name]
    unit, limits = field.ask.unit, field.schema
    assert unit is not None
    least, above = limits.get("minimum", -math.inf), limits.get("exclusiveMinimum", -math.inf)
    if not (least <= value <= limits.get("maximum", math.inf) and value > above):
        raise InvalidInput(f"{name}={value:g} {unit.wrong}", hint=unit.hint)


def check_length(name: str, value: str, *, required: bool = False) -> None:
    """Raise InvalidInput for a person's text that is shorter or longer than its field allows, in characters.

    An empty text counts as not given, and is refused only if ``required`` is set. Do not call this for Streamkeeper's
    own texts, such as the reason of a restart: the limits do not apply to them.
    """
    least, most = (asked_fields(DeployRequest)[name].schema[bound] for bound in ("minLength", "maxLength"))
    if (value or required) and not least <= len(value) <= most:
        raise InvalidInput(f"{name} has {len(value):,} characters", hint=f"write {least} to {most:,} characters")


def check_text(name: str, value: str) -> None:
    """Raise InvalidInput for a text that is not Unicode: it has half a surrogate pair, or bytes of another encoding."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} is not Unicode: {ascii(value)[:80]}", hint="write it in UTF-8") from None
