"""TLS between processes, with real certificates: the right ones work, all others are kept out and told why."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from firesteel.adapters.rpc.settings import network_settings
from firesteel.model.options import Configuration, ConfigurationError
from tests.network.peers import HOST, LIMIT_S, Box, nodes

Options = dict[str, str]
SSL = "security.ssl.internal"


@pytest.fixture
def certificates(tmp_path: Path) -> Callable[..., Options]:
    """`certificates(authority, host)`: options of a process with a certificate for `host`, which trusts `authority`."""

    def make(
        authority: trustme.CA, host: str, trusted: trustme.CA | None = None, not_after: datetime | None = None
    ) -> Options:
        directory = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        issued = authority.issue_cert(host, not_after=not_after)
        issued.private_key_pem.write_to_path(directory / "key.pem")
        for blob in issued.cert_chain_pems:
            blob.write_to_path(directory / "cert.pem", append=True)
        (trusted or authority).cert_pem.write_to_path(directory / "ca.pem")
        return {
            f"{SSL}.enabled": "true",
            f"{SSL}.certificate": str(directory / "cert.pem"),
            f"{SSL}.private-key": str(directory / "key.pem"),
            f"{SSL}.certificate-authorities": str(directory / "ca.pem"),
        }

    return make


def talk(options: Options, others: Options) -> str:
    """Say a word from one side to the other and back; returns why that failed, or nothing."""

    async def story() -> str:
        async with nodes({"rpc.connect-timeout": "5 s", **options}, {"rpc.connect-timeout": "5 s", **others}) as sides:
            master, worker = Box(sides[0], "master"), Box(sides[1], "worker")
            worker.send(master.address, "hello")
            async with asyncio.timeout(LIMIT_S):
                while not (worker.lost or master.texts):
                    await asyncio.sleep(0.01)
            if worker.lost:
                assert master.events == []
                return worker.lost[0].reason
            master.send(worker.address, "x" * 1_000_000)
            await worker.until(lambda box: box.texts)
            return ""

    return asyncio.run(story())


def test_mutual_tls(certificates: Callable[..., Options]) -> None:
    authority = trustme.CA()
    assert talk(certificates(authority, HOST), certificates(authority, "any.name.of.a.worker")) == ""


def test_who_is_kept_out(certificates: Callable[..., Options]) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    master = certificates(authority, HOST)
    assert "may not trust the certificate of this process" in talk(
        master, certificates(stranger, HOST, trusted=authority)
    )
    said = talk(certificates(stranger, HOST), certificates(authority, HOST))
    assert f"is not trusted here: {SSL}.certificate-authorities must name the authority" in said
    said = talk(certificates(authority, "elsewhere"), certificates(authority, HOST))
    assert f"it shows a certificate that is not for {HOST}: give it one that is" in said
    expired = certificates(authority, HOST, not_after=datetime(2020, 1, 1, tzinfo=UTC))
    assert "it shows a certificate that has expired" in talk(expired, certificates(authority, HOST))
    assert f"if it wants TLS, set {SSL}.enabled" in talk(master, {})
    assert f"it speaks no TLS: {SSL}.enabled must be the same" in talk({}, master)


def test_without_authentication_the_worker_alone_is_sure_whom_it_talks_to(
    certificates: Callable[..., Options],
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    master = {**certificates(authority, HOST), f"{SSL}.authentication-enabled": "false"}
    assert talk(master, certificates(stranger, HOST, trusted=authority)) == ""


def test_names_need_not_be_verified(certificates: Callable[..., Options]) -> None:
    authority = trustme.CA()
    options = certificates(authority, "elsewhere")
    assert talk(options, {**options, "security.ssl.verify-hostname": "false"}) == ""


def test_what_can_not_be_used_is_said_at_the_start(certificates: Callable[..., Options], tmp_path: Path) -> None:
    good = certificates(trustme.CA(), HOST)
    (tmp_path / "rubbish.pem").write_text("rubbish")
    for key, value, text in (
        (f"{SSL}.certificate", "", f"set {SSL}.certificate too"),
        (f"{SSL}.certificate", str(tmp_path / "missing.pem"), "No such file"),
        (f"{SSL}.private-key", str(tmp_path / "rubbish.pem"), "can't be used"),
        (f"{SSL}.certificate-authorities", str(tmp_path / "rubbish.pem"), "can't be used"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            network_settings(Configuration({**good, key: value}), "node")
