"""The options of a program, by the name of its programming model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from offloadrt.study.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from offloadrt.models.host.options import ProgramOptions

MODELS: Final = ("openmp", "openacc", "stdpar", "cuda")


def options_for(model: object) -> type[ProgramOptions]:
    """Return the class of the options of this model's programs. Raises UserError for a model that does not exist."""
    # Only the model that is asked for is imported: each takes a good part of the start-up time.
    if model == "openmp":
        from offloadrt.models.openmp.options import OpenMPOptions

        return OpenMPOptions
    if model == "openacc":
        from offloadrt.models.openacc.options import OpenACCOptions

        return OpenACCOptions
    if model == "stdpar":
        from offloadrt.models.stdpar.options import StdParOptions

        return StdParOptions
    if model == "cuda":
        from offloadrt.models.cuda.options import CUDAOptions

        return CUDAOptions
    raise UserError(f"model {model!r}: it can be {', '.join(MODELS)}")


def changed(options: ProgramOptions, changes: Mapping[str, Any]) -> ProgramOptions:
    """Return the options with some of them replaced. Raises UserError for one that the model does not have."""
    known = [field.name for field in attrs.fields(type(options))]
    for name in changes:
        if name not in known:
            raise UserError(
                f"a program of {options.model} has no option {name!r}{did_you_mean(name, known)}; "
                f"there are: {', '.join(known)}"
            )
    return attrs.evolve(options, **changes)
