"""Commands that take a pipeline's file or a plain script: what follows the name of a script is the script's."""

import os

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
