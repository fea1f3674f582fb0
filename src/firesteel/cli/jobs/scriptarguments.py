"""Commands that take a pipeline's file or a plain script: what follows the name of a script is the script's."""

import os
from collections import deque

import click

from firesteel.pipeline.scripts import is_script


class JobCommand(click.Command):
    """A command that takes a job, as `spark-submit` and `python` do; options may come after a pipeline's file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = not is_script(os.path.join(os.getcwd(), self._file(ctx, args)))
        return super().parse_args(ctx, args)

    def _file(self, ctx: click.Context, args: list[str]) -> str:
        """The first argument; empty where there is none, or the command line is wrong anyway."""
        ctx.allow_interspersed_args = False
        try:
            return str(self.make_parser(ctx).parse_args(list(args))[0].get("file") or "")
        except click.UsageError:
            return ""


KEEP_WARM = "--keep-warm"
KEEP_WARM_DEFAULT = "10 min"


class RunCommand(JobCommand):
    """A job's command whose `--keep-warm` may stand without a time: what follows it may be the file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        whole = with_times(args)
        file = self._file(ctx, whole)
        if is_script(os.path.join(os.getcwd(), file)) and file in args:
            own = args.index(file)
            whole = [*with_times(args[:own]), *args[own:]]
        return super().parse_args(ctx, whole)


def with_times(arguments: list[str]) -> list[str]:
    """The arguments with a time at each `--keep-warm`: the next argument when that begins as times do, else the default."""
    whole, left = list[str](), deque(arguments)
    while left and left[0] != "--":
        each = left.popleft()
        if each != KEEP_WARM:
            whole.append(each)
        elif left and left[0][:1].isdigit() and not os.path.exists(left[0]):
            whole.append(f"{KEEP_WARM}={left.popleft()}")
        else:
            whole.append(f"{KEEP_WARM}={KEEP_WARM_DEFAULT}")
    return [*whole, *left]
