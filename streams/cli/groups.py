"""Groups of commands. A group without a command prints its help."""

import typer


def group(help_: str, name: str | None = None, epilog: str | None = None, *, completion: bool = False) -> typer.Typer:
    """Return a group of commands with plain-text help."""
    app = typer.Typer(
        name=name,
        help=help_,
        epilog=epilog,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=completion,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def _alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return app
