"""`firesteel submit`: `run --detach` on a cluster."""

from typing import Any

import click

from firesteel.cli.jobs.run import job_options, run_command
from firesteel.cli.jobs.scriptarguments import JobCommand
from firesteel.cli.settings import load_configuration
from firesteel.client.finding import local_addresses
from firesteel.model.options import REST_ADDRESS


@click.command(cls=JobCommand)
@job_options
def submit(master: str, **arguments: Any) -> int:
    """Hand in the job of the pipeline of FILE, and print its id once it is safe with the master.

    To the cluster that --master or rest.address name, else to the one on this machine.
    """
    configured = load_configuration(arguments["definitions"], master)
    address = configured.get_option(REST_ADDRESS) or local_addresses(configured)
    return run_command(master=address, detach=True, **arguments)
