"""What a client says of masters that answer, but not to it: TLS on one side only, certificates that do not do, tokens."""

import asyncio
import datetime
import ssl
import time
from pathlib import Path

import pytest
import trustme

from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import network_settings
from firesteel.client import ClusterClient, ClusterUnreachable
from firesteel.client.http import HttpClusterClient
from firesteel.client.transport import Refused
from firesteel.model.options import Configuration, ConfigurationError
from tests.rest.cluster import rest_cluster

HOST = "127.0.0.1"
LONG_AGO, LATER = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2021, 2, 3, tzinfo=datetime.UTC)
PATIENCE_S = 600.0
AT_ONCE_S = PATIENCE_S / 2
"""A second or two, but on a machine that has much else to do; what counts is that nobody was patient."""

Options = dict[str, str]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def endpoint_with(certificate: trustme.LeafCert, directory: Path) -> Options:
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(directory / "cert.pem", append=True)
    return {
        "security.ssl.rest.certificate": str(directory / "cert.pem"),
        "security.ssl.rest.private-key": str(directory / "key.pem"),
    }


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    return tls


async def said(addresses: list[str], tls: ssl.SSLContext | None) -> str:
    """What the error says of the addresses, in sentences without their URLs."""
    begun_s = time.monotonic()
    async with HttpClusterClient(addresses, tls=tls, patience_s=PATIENCE_S) as client:
        with pytest.raises(ClusterUnreachable) as caught:
            await client.list_jobs()
    assert time.monotonic() - begun_s < AT_ONCE_S
    text = str(caught.value)
    for address in addresses:
        assert address in text
        text = text.replace(f"{address} ", "")
    return text


def other_scheme(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def test_certificates_that_do_not_do(tmp_path: Path, authority: trustme.CA) -> None:
    stranger = trustme.CA()
    elsewhere = authority.issue_cert("elsewhere.example", "10.1.2.3")
    expired = authority.issue_cert(HOST, not_before=LONG_AGO, not_after=LATER)
    future = authority.issue_cert(
        HOST,
        not_before=datetime.datetime(2999, 5, 6, tzinfo=datetime.UTC),
        not_after=datetime.datetime(2999, 7, 8, tzinfo=datetime.UTC),
    )

    async def story() -> None:
        for number, (certificate, trusted, words) in enumerate([
            (authority.issue_cert(HOST), None, "not trusted here (unable to get local issuer certificate): set security.ssl.rest.ca"),
            (authority.issue_cert(HOST), stranger, "not trusted here (unable to get local issuer certificate): set security.ssl.rest.ca"),
            (elsewhere, authority, f"shows a certificate for elsewhere.example, 10.1.2.3, and not for {HOST}: use such a name"),
            (expired, authority, "has expired on Feb  3 00:00:00 2021 GMT: give the master a new one"),
            (future, authority, "is not valid before May  6 00:00:00 2999 GMT: look at the clocks"),
        ]):  # fmt: skip
            directory = tmp_path / f"{number}"
            directory.mkdir()
            async with rest_cluster(directory, options=endpoint_with(certificate, directory)) as rest:
                assert words in await said([rest.server.address], trusting(trusted) if trusted else None)

    asyncio.run(story())


def test_tls_on_one_side_only(tmp_path: Path, authority: trustme.CA) -> None:
    """Both ways; and one of several masters that can be talked to is enough, whichever it is."""
    (tmp_path / "tls").mkdir()
    options = endpoint_with(authority.issue_cert(HOST), tmp_path / "tls")

    async def story() -> None:
        async with rest_cluster(tmp_path / "tls", options=options) as safe, rest_cluster(tmp_path) as plain:
            tls = trusting(authority)
            not_plain, not_safe = other_scheme(safe.server.address), other_scheme(plain.server.address)
            assert await said([not_plain], None) == f"speaks TLS: use {safe.server.address}"
            assert await said([not_safe], tls) == f"speaks no TLS: use {plain.server.address}"
            both = await said([f"http://{HOST}:9", not_plain], tls)
            assert both == f"speaks TLS: use {safe.server.address}; nobody answers at http://{HOST}:9"
            for addresses in ([not_plain, not_safe, plain.server.address], [not_plain, not_safe, safe.server.address]):
                async with HttpClusterClient(addresses, tls=tls) as client:
                    assert await client.list_jobs() == []

    asyncio.run(story())


def test_the_port_for_workers() -> None:
    async def story() -> None:
        server = PeerServer(network_settings(Configuration({}), "master"), {})
        address = f"http://{HOST}:{await server.listen(HOST, 0)}"
        words = await said([address], None)
        assert words == "is where workers come (jobmanager.rpc.port): use the port of REST (rest.port)"
        await server.close()

    asyncio.run(story())


def test_an_endpoint_that_asks_for_certificates(tmp_path: Path, authority: trustme.CA) -> None:
    stranger = trustme.CA()
    options = endpoint_with(authority.issue_cert(HOST), tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    async def story() -> None:
        async with rest_cluster(
            tmp_path, options={**options, "security.ssl.rest.ca": str(tmp_path / "ca.pem")}
        ) as rest:
            tls = trusting(authority)
            for _ in range(2):
                words = await said([rest.server.address], tls)
                assert words.startswith(
                    "closes connections as soon as TLS is set up: if it asks for a certificate, set "
                )
                stranger.issue_cert(HOST).configure_cert(tls)

    asyncio.run(story())


def test_tokens_that_are_missing_or_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has to mend it is told where it came from."""
    users = tmp_path / "users.yaml"
    users.write_text("users: [{name: vera, roles: [view], token: v}]")

    async def story() -> None:
        async with rest_cluster(tmp_path, options={"rest.users-file": str(users)}) as rest:
            await asyncio.to_thread(ask, rest.server.address)

    def ask(address: str) -> None:
        monkeypatch.delenv("FIRESTEEL_TOKEN", raising=False)
        with ClusterClient(address) as client, pytest.raises(Refused, match="set FIRESTEEL_TOKEN to your token"):
            client.jobs()
        monkeypatch.setenv("FIRESTEEL_TOKEN", "x")
        with (
            ClusterClient(address) as client,
            pytest.raises(Refused, match="does not know the token in FIRESTEEL_TOKEN"),
        ):
            client.jobs()
        with ClusterClient(address, token="y") as client, pytest.raises(Refused, match="not know the token in token="):
            client.jobs()
        with ClusterClient(address, token="v\r\n") as client:
            assert client.jobs() == []
        for odd in ("a b", "ünï", "a\nb"):
            with pytest.raises(ConfigurationError, match="token=: a token is made of A-Z") as caught:
                ClusterClient(address, token=odd)
            assert odd not in str(caught.value)

    asyncio.run(story())
