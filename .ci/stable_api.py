"""Compares the names that semantic versioning covers (CHANGELOG.md) with those of an earlier commit.

    uv run --group api python .ci/stable_api.py [COMMIT]

The commit is the one that `[tool.offloadrt] stable-since` in pyproject.toml names, unless another is given. Exits with
1 when a name of an `__all__` is gone, or a call that was right before would not be right any more. Before a release
that means to break something, move `stable-since` to it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import griffe

MODULES = ("", "openmp", "openacc", "stdpar", "cuda", "testing")
ROOT = Path(__file__).resolve().parents[1]


def public_objects(package: griffe.Object | griffe.Alias) -> Iterator[tuple[str, griffe.Object]]:
    """Yield the full name and the definition of each name in an `__all__` of the modules."""
    for name in MODULES:
        module = package[name] if name else package
        module = module.final_target if module.is_alias else module
        for export in sorted(map(str, module.exports or ())):
            member = module.all_members.get(export)
            if member is None or member.is_module:  # what is imported when it is first used; the modules themselves
                continue
            yield f"{name}.{export}".lstrip("."), member.final_target if member.is_alias else member


def main() -> int:
    """Print each breakage, and return the exit code."""
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["offloadrt"]["stable-since"]
    commit = sys.argv[1] if len(sys.argv) > 1 else configured
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True).returncode:
        print(f"nothing is compared: {commit} is not here, as in an archive or a copy without the history")
        return 0
    now = griffe.load("offloadrt", search_paths=[ROOT], resolve_aliases=True)
    then = griffe.load_git("offloadrt", ref=commit, repo=ROOT, resolve_aliases=True)
    before, after = dict(public_objects(then)), dict(public_objects(now))
    broken = [f"{name}: is gone" for name in before if name not in after]
    for name in before.keys() & after.keys():
        found = griffe.find_breaking_changes(before[name], after[name])
        broken += [breakage.explain(griffe.ExplanationStyle.MARKDOWN) for breakage in found]
    print(
        f"{len(before)} public names at {commit}, {len(after)} now: {len(broken)} breakages", *sorted(broken), sep="\n"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
