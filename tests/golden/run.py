"""``python -m tests.golden.run``: the conformance table, and what is unexplained.

Exit status 1 when anything is neither equal nor a listed difference, 2 when there are no cases.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden import readers_figures, readers_projections
from tests.golden.cases import GOLDEN, Case, find
from tests.golden.conformance import KINDS, Subject
from tests.golden.differences import DIFFERENCES
from tests.golden.values import ABSENT, Finding

LISTED = DIFFERENCES | readers_figures.DIFFERENCES | readers_projections.DIFFERENCES
SMALL = "reader_cases"
COLUMNS = ("cases", "equal", "listed differences", "unexplained")


@dataclass
class Result:
    """Findings of one case, by file kind."""

    case: Case
    findings: dict[str, list[Finding]] = field(default_factory=dict)


def judge(case: Case) -> Result:
    """Compare every golden file of a case; a crash is a finding of that file."""
    result, subject = Result(case), Subject(case)
    for kind, function in KINDS.items():
        if not case.has(kind):
            continue
        try:
            result.findings[kind] = function(subject)
        except Exception:  # noqa: BLE001 - one case must not hide the others
            last = traceback.format_exc(limit=-3)
            result.findings[kind] = [Finding("exception", ABSENT, last)]
    return result


def small_cases(root: Path) -> list[Result]:
    """The cases of ``reader_cases.json``, where it is."""
    file = root / f"{SMALL}.json"
    if not file.exists():
        return []
    told = json.loads(file.read_text("utf-8", "surrogatepass"))
    found = {"figures": readers_figures.compare_cases(told)}
    found["projections"] = dict(readers_projections.compare_cases(told))
    return [
        Result(Case(root / SMALL / name), {kind: findings})
        for kind, cases in found.items()
        for name, findings in cases.items()
    ]


def verdict(findings: list[Finding]) -> str:
    if any(f.reason is None for f in findings):
        return "unexplained"
    return "listed differences" if findings else "equal"


def table(results: list[Result]) -> str:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for result in results:
        for kind, findings in result.findings.items():
            row = counts.setdefault((result.case.group, kind), Counter())
            row.update(("cases", verdict(findings)))
    total: Counter[str] = sum(counts.values(), Counter())
    lines = [f"{'group':<20}{'file':<20}" + "".join(f"{c:>20}" for c in COLUMNS)]
    for (group, kind), row in [*counts.items(), (("all", ""), total)]:
        lines.append(f"{group:<20}{kind:<20}" + "".join(f"{row[c]:>20}" for c in COLUMNS))
    return "\n".join(lines)


def reasons(results: list[Result]) -> str:
    """How many cases each deliberate difference touches."""
    touched: Counter[int] = Counter()
    for result in results:
        found = (f.reason for fs in result.findings.values() for f in fs)
        touched.update({r for r in found if r is not None})
    named = (
        f"  {n:>3} in {count:>4} cases: {LISTED[n].title}" for n, count in sorted(touched.items())
    )
    return "\n".join(named)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def report(results: list[Result], verbose: bool) -> None:
    for result in results:
        for kind, findings in result.findings.items():
            shown = findings if verbose else [f for f in findings if f.reason is None][:5]
            for finding in shown:
                say(f"{result.case} {kind}: {finding}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.run", description=__doc__)
    parser.add_argument("--root", type=Path, default=GOLDEN, help="the golden folder")
    parser.add_argument("--group", help="one group only")
    parser.add_argument("--case", help="cases whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="show listed differences too")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    args = parser.parse_args(argv)
    cases = list(find(args.root, args.group, args.case))
    if not cases and args.group != SMALL:
        sys.stderr.write(f"no golden cases below {args.root}\n")
        return 2
    if args.jobs > 1 and len(cases) > 8:
        with ProcessPoolExecutor(args.jobs) as pool:
            results = list(pool.map(judge, cases, chunksize=8))
    else:
        results = [judge(case) for case in cases]
    if args.group in (None, SMALL) and not args.case:
        results += small_cases(args.root)
    report(results, args.verbose)
    say(table(results))
    say(reasons(results))
    bad = any(verdict(fs) == "unexplained" for r in results for fs in r.findings.values())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
