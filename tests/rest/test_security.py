"""Users and what they may do, pages of other origins, TLS."""

import asyncio
import hashlib
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.client.http import HttpClusterClient
from firesteel.client.transport import ClusterUnreachable
from firesteel.core.effects import DISPATCHER
from firesteel.model.options import ConfigurationError
from firesteel.rest.security import load_users
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import LIMIT_S, graph, rest_cluster, submission
from tests.rest.conftest import Do

USERS = f"""
users:
  - {{name: vera, roles: [view], token: v-token}}
  - {{name: sam, roles: [submit], sha256: {hashlib.sha256(b"s-token").hexdigest()}}}
  - {{name: olga, roles: [view, submit, operate], token: o-token}}
"""

HELD, OWN = graph("lines", "held"), graph("mine", "own")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_roles(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        script.hold("lines", "mine")
        async with rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)}) as rest:
            http = rest.http
            for headers in ({}, bearer("wrong"), {"Authorization": "Bearer"}, {"Authorization": "Basic v-token"}):
                refused = await http.get("/jobs", headers=headers)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
                assert (await http.post("/jobs", headers=headers, files=submission(HELD))).status_code == 401
            vera, sam, olga = bearer("v-token"), bearer("s-token"), bearer("o-token")
            assert (await http.post("/jobs", headers=vera, files=submission(HELD))).status_code == 403
            assert (await http.get("/jobs", headers=vera)).json() == {"jobs": []}
            assert (await http.post("/jobs", headers=olga, files=submission(HELD))).status_code == 202
            assert (await http.post("/jobs", headers=sam, files=submission(OWN))).status_code == 202
            assert (await http.post("/jobs", headers=sam, files=submission(HELD))).status_code == 409
            owners = {
                job["name"]: job["owner"] for job in (await http.get("/jobs/overview", headers=vera)).json()["jobs"]
            }
            assert owners == {"held": "olga", "own": "sam"}
            await script.until_running("lines")
            held, own = f"/jobs/{HELD.job_id}", f"/jobs/{OWN.job_id}"
            for who in (vera, sam):
                refused = await http.patch(held, headers=who)
                assert refused.status_code == 403
                assert "operate" in refused.json()["errors"][0]
                assert (await http.get(f"{held}/yarn-cancel", headers=who)).status_code == 403
                assert (await http.post(f"{held}/stop", headers=who)).status_code == 403
                assert (await http.delete("/cluster", headers=who)).status_code == 403
            assert (await http.get(f"{held}/status", headers=vera)).json() == {"status": "RUNNING"}
            for where, who, status in ((held, vera, 403), (held, sam, 403), (own, sam, 200), (own, olga, 200)):
                assert (await http.get(f"{where}/output", headers=who)).status_code == status
            assert (await http.patch(own, headers=sam)).status_code == 202
            assert (await http.patch(held, headers=olga)).status_code == 202
            assert isinstance(rest.cluster.store, InMemoryJobStore)
            while rest.cluster.store._graphs:  # what only a job's result says is known of it from now on
                await asyncio.sleep(0.01)
            rest.cluster.revoke_leadership(DISPATCHER)
            rest.cluster.grant_leadership(DISPATCHER)
            while (await http.get(f"{held}/status", headers=vera)).status_code == 503:
                await asyncio.sleep(0.01)
            for who, status in ((vera, 403), (olga, 200)):
                assert (await http.get(f"{held}/output", headers=who)).status_code == status

    do(story())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("users: 3", "users"),
        ("users: [{name: a, roles: [king], token: x}]", "king"),
        ("users: [{name: a, roles: [view]}]", "needs either a token"),
        ("users: [{name: a, roles: [view], token: x}, {name: b, roles: [view], token: x}]", "same token"),
        ("users: [", "can't be read"),
    ],
)
def test_users_files_that_are_refused(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=words):
        load_users(str(file))


def test_pages_of_other_origins(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """A page somewhere can't use the browser of somebody who may; one that is allowed can."""

    async def story() -> None:
        foreign, allowed = {"Origin": "https://evil.example"}, {"Origin": "https://dash.example"}
        form = {**foreign, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
        async with rest_cluster(
            tmp_path, script=script, options={"web.access-control-allow-origin": "https://dash.example"}
        ) as rest:
            http = rest.http
            for headers in (foreign, form, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}):
                assert (await http.post("/jobs", headers=headers, files=submission(HELD))).status_code == 403
            assert (await http.get("/jobs", headers=foreign)).status_code == 403
            assert (await http.get("/jobs", headers={"Origin": rest.server.address})).status_code == 200
            answer = await http.get("/jobs", headers=allowed)
            assert answer.headers["access-control-allow-origin"] == "https://dash.example"
            assert answer.json() == {"jobs": []}
            preflight = await http.options("/jobs", headers={**allowed, "Access-Control-Request-Method": "POST"})
            assert preflight.status_code == 204
            assert "POST" in preflight.headers["access-control-allow-methods"]
            refused = await http.options("/jobs", headers={**foreign, "Access-Control-Request-Method": "POST"})
            assert "access-control-allow-origin" not in refused.headers

    do(story())


def test_links_change_nothing(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """Flink has a GET that cancels: links and pictures lead there too. Programs and scripts of our own pages may."""

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            await script.until_running("lines")
            cancel, plan = f"/jobs/{HELD.job_id}/yarn-cancel", f"/jars/{'0' * 32}_a.py/plan"
            for site in ("cross-site", "same-site", "same-origin", "none"):
                for mode in ("navigate", "no-cors"):
                    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
                    for path in (cancel, f"/v1{cancel}?/view", plan):
                        assert (await rest.http.get(path, headers=fetched)).status_code == 403, (path, fetched)
                    assert (await rest.http.head(cancel, headers=fetched)).status_code == 403
                link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
                assert (await rest.http.get(f"/jobs/{HELD.job_id}/status", headers=link)).json() == {
                    "status": "RUNNING"
                }
            of_flinks_dashboard = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
            assert (await rest.http.get(cancel, headers=of_flinks_dashboard)).status_code == 202
            assert (await rest.finish(HELD.job_id))["application-status"] == "CANCELED"

    do(story())


def test_a_page_whose_name_leads_here(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """Its origin is then the host it asks: the endpoint of one machine knows its own names only."""

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            port = rest.server.host_port[1]
            evil = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
            assert (await rest.http.get("/jobs", headers=evil)).status_code == 403
            assert (await rest.http.post("/jobs", headers=evil, files=submission(HELD))).status_code == 403
            for name in ("[", "", "127.0.0.1@evil.example"):
                assert (await rest.http.get("/jobs", headers={"Host": name})).status_code == 403, name
            for name in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
                assert (await rest.http.get("/jobs", headers={"Host": name})).status_code == 200, name

    do(story())


def test_tls(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """With a certificate of our own; and clients must show theirs where the endpoint asks for it."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True, timeout=LIMIT_S,
    )  # fmt: skip
    options = {"security.ssl.rest.certificate": str(certificate), "security.ssl.rest.private-key": str(key)}

    async def story() -> None:
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            assert rest.server.address.startswith("https://")
            async with httpx.AsyncClient(base_url=rest.server.address, verify=trusting, timeout=LIMIT_S) as http:
                assert (await http.get("/jobs")).json() == {"jobs": []}
            async with HttpClusterClient([rest.server.address], tls=trusting) as client:
                assert await client.list_jobs() == []
            async with HttpClusterClient([rest.server.address]) as client:
                with pytest.raises(ClusterUnreachable):
                    await client.list_jobs()
            with pytest.raises(httpx.ConnectError):
                await rest.http.get("/jobs")
        mutual = {**options, "security.ssl.rest.ca": str(certificate)}
        async with rest_cluster(tmp_path, script=script, options=mutual) as rest:
            async with httpx.AsyncClient(base_url=rest.server.address, verify=trusting, timeout=LIMIT_S) as http:
                with pytest.raises(httpx.TransportError):
                    await http.get("/jobs")
            known = ssl.create_default_context(cafile=str(certificate))
            known.load_cert_chain(certificate, key)
            async with HttpClusterClient([rest.server.address], tls=known) as client:
                assert await client.list_jobs() == []
            async with httpx.AsyncClient(base_url=rest.server.address, verify=known, timeout=LIMIT_S) as http:
                assert (await http.get("/jobs")).json() == {"jobs": []}

    do(story())


def test_a_port_that_is_taken(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            port = str(rest.server.host_port[1])
            with pytest.raises(OSError, match=f"can't listen on 127.0.0.1:{port}"):
                async with rest_cluster(tmp_path, options={"rest.port": port}):
                    pass
            await asyncio.sleep(0)

    do(story())
