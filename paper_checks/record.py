"""``python -m paper_checks.record``: judge every claim, and write verdicts.json, INDEX.md and README.md."""

import json
import sys

from paper_checks import index, readme
from paper_checks.claim import load
from paper_checks.run import RECORD, judge_all
from paper_checks.verdict import OURS
from simlab.files import write_whole


def main() -> int:
    """Record the verdicts; nothing while our methods disagree about any claim."""
    verdicts = judge_all(load().values())
    ours = [verdict for verdict in verdicts if verdict.verdict == OURS]
    for verdict in ours:
        print(f"{verdict.tag}: {OURS}: {verdict.counterexample}", file=sys.stderr)
    if ours:
        print("nothing was recorded", file=sys.stderr)
        return 1
    by_tag = {verdict.tag: verdict.verdict for verdict in verdicts}
    write_whole(RECORD, (json.dumps(by_tag, indent=1) + "\n").encode())
    index.main()
    readme.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
