"""``sight serve check``: whether the service of a data folder is ready, for health checks."""

import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from sight.apps.cli import serve_token
from sight.apps.cli._shared import console, errors

#: File in the data folder with the address of the service that uses it.
FILE = "service.json"
#: Seconds for one request, and between two of them.
REQUEST_S, PAUSE_S = 10.0, 0.5


def check_service(
    data: serve_token.Data = Path("sight-data"),
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until the service is ready.")] = 0.0,
) -> None:
    """Exit with 0 if the service of a data folder accepts samples and can store them, else with 1 and the reason.

    It asks the service on this machine for /readyz, over TLS too, whatever name the certificate has.

    [bold]Example[/]

      sight serve check --data /srv/sight --wait 60
    """
    end = time.monotonic() + wait
    while reason := _problem(data / FILE):
        if time.monotonic() + PAUSE_S > end:
            errors.print(f"check: {reason}", highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(1)
        time.sleep(PAUSE_S)
    console.print("ready", highlight=False)


def _problem(file: Path) -> str:
    """Return why the service is not ready, or nothing if it is."""
    try:
        url = json.loads(file.read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"No service uses {file.parent}: there is no readable {file.name}; start it with --data {file.parent}."
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the service itself, on this machine
    try:
        urllib.request.urlopen(f"{url}readyz", timeout=REQUEST_S, context=context).close()
    except urllib.error.HTTPError as error:
        return f"The service at {url} is not ready (status {error.code}): {error.read(500).decode('utf-8', 'replace')}"
    except OSError as error:
        return f"The service at {url} does not respond ({error})."
    return ""
