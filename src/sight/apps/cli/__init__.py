"""Command line: one command per file that parses arguments, calls the library and prints."""

import typer

from sight import __version__
from sight.apps.cli import bench, cohort, data, list_commands, models, serve
from sight.apps.cli._kernel_cache import set_kernel_cache
from sight.apps.cli._shared import ErrorReportingGroup
from sight.apps.cli.adapt import adapt
from sight.apps.cli.demo import demo
from sight.apps.cli.evaluate import evaluate
from sight.apps.cli.export import export
from sight.apps.cli.fleet import fleet
from sight.apps.cli.send import send
from sight.apps.cli.stream import stream
from sight.apps.cli.train import train

app = typer.Typer(
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Adapt an activity classifier to its wearer, online and without labels.",
    epilog="Input errors end with exit code 2 and one line; SIGHT_DEBUG=1 shows the traceback.",
)


@app.callback(invoke_without_command=True)
def _options(
    ctx: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and exit.")
) -> None:
    if version:
        typer.echo(f"sight {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit
    if ctx.invoked_subcommand != "serve":  # which keeps them in its data folder
        set_kernel_cache()


app.command()(demo)
app.command()(train)
app.command()(adapt)
app.command()(evaluate)
app.command()(models.inspect)
app.command()(export)
app.command()(stream)
app.command()(send)
app.command()(fleet)
app.command()(list_commands.methods)
app.command()(list_commands.datasets)
app.command()(list_commands.encoders)
app.add_typer(models.app, name="models")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(cohort.app, name="cohort")
app.add_typer(serve.app, name="serve")


def main() -> None:
    app()
