"""Files of pipelines: uploaded, listed, run and deleted as Flink's dashboard does it with jars."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

from firesteel.model.ids import derived_id
from firesteel.pipeline.uploaded import declared_pipelines
from tests.rest.cluster import RestCluster, rest_cluster
from tests.rest.conftest import Do

PIPELINE = """
import os, time
import firesteel as fs

pipeline = fs.Pipeline("from a file")

@pipeline.source
def lines(spark, input: str):
    return spark.read.text(input)

@pipeline.sink
def out(lines, output: str = "/nowhere"):
    fs.write_text(lines, output)
"""

TWO = 'import firesteel as fs\none = fs.Pipeline("1")\none.add(fs.noop("a"))\ntwo = fs.Pipeline("2")\ntwo.add(fs.noop("b"))\n'

USERS = """users:
  - {name: ada, roles: [view], token: a}
  - {name: grace, roles: [submit], token: g}
  - {name: hedy, roles: [submit], token: h}
  - {name: linus, roles: [operate], token: l}
"""


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


async def upload(rest: RestCluster, name: str, content: bytes | str, status: int = 200, **more: Any) -> Any:
    data = content.encode() if isinstance(content, str) else content
    answer = await rest.http.post("/jars/upload", files={"jarfile": (name, data, "application/x-java-archive")}, **more)
    assert answer.status_code == status, answer.text
    return answer.json() if status != 200 else answer.json()["filename"].rpartition("/")[2]


async def post(rest: RestCluster, path: str, status: int = 200, **content: Any) -> Any:
    answer = await rest.http.post(path, **content)
    assert answer.status_code == status, (path, answer.status_code, answer.text)
    return answer.json()


def blobs(rest: RestCluster) -> set[str]:
    return set(os.listdir(rest.cluster.work_dir / "blobs"))


def test_a_python_file_a_zip_and_a_wheel_run(tmp_path: Path, do: Do) -> None:
    package = {"jobs/__init__.py": "", "jobs/counts.py": PIPELINE, "jobs/helper.py": "x = 1\n"}
    wheel = {**package, "jobs-1.dist-info/METADATA": "Name: jobs\n"}

    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            files: dict[str, str | bytes] = {
                "wordcount.py": PIPELINE,
                "jobs.zip": zipped(package),
                "jobs-1-py3-none-any.whl": zipped(wheel),
            }
            ids = {name: await upload(rest, name, content) for name, content in files.items()}
            listed = await rest.get("/v1/jars")
            assert listed["address"] == rest.server.address
            assert {jar["id"]: jar["name"] for jar in listed["files"]} == {ids[name]: name for name in files}
            entries = {jar["name"]: [entry["name"] for entry in jar["entry"]] for jar in listed["files"]}
            assert entries == {
                "wordcount.py": ["pipeline"],
                "jobs.zip": ["jobs.counts:pipeline"],
                "jobs-1-py3-none-any.whl": ["jobs.counts:pipeline"],
            }
            for name, body in (
                ("wordcount.py", {"programArgsList": ["input=/data"], "jobId": derived_id("chosen")}),
                ("jobs.zip", {"programArgsList": ["--input", "/data", "--output=/x"], "entryClass": "jobs.counts"}),
                ("jobs-1-py3-none-any.whl", {"programArgsList": ["--param", "input=/data"], "parallelism": 1}),
            ):
                answer = await post(rest, f"/v1/jars/{ids[name]}/run", json=body)
                assert answer["jobid"] == answer["applicationId"] == body.get("jobId", answer["jobid"])
                assert (await rest.finish(answer["jobid"]))["name"] == "from a file"
            assert rest.script.ends("out") == ["FINISHED"] * 3
            view = await rest.get(f"/jobs/{derived_id('chosen')}/view")
            assert view["parameters"] == {"input": "/data", "output": "/nowhere"}
            for jar_id in ids.values():
                assert (await rest.http.delete(f"/jars/{jar_id}")).json() == {}
            assert (await rest.get("/jars"))["files"] == []
            await until_no_blobs(rest)
            assert os.listdir(rest.cluster.work_dir / next(iter(rest.cluster.workers)) / "builds") == []

    do(story())


async def until_no_blobs(rest: RestCluster) -> None:
    """Jobs' artifacts go with the jobs' clean-up."""
    import asyncio

    while blobs(rest):
        await asyncio.sleep(0.02)


def test_a_plain_script_has_arguments(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            jar_id = await upload(rest, "script.py", "import sys\nprint(sys.argv)\n")
            started = await post(rest, f"/jars/{jar_id}/run", json={"programArgsList": ["--input", "x", "y"]})
            assert (await rest.finish(started["jobid"]))["name"] == "script"
            assert (await rest.get(f"/jobs/{started['jobid']}/view"))["vertices"][0]["is_script"]
            assert (await rest.get("/jars"))["files"][0]["entry"] == []

    do(story())


def test_a_plan_runs_nothing_and_leaves_nothing(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            jar_id = await upload(rest, "wordcount.py", PIPELINE)
            for answer in (
                await rest.get(f"/jars/{jar_id}/plan?parallelism=1&programArg=input=/data"),
                await post(rest, f"/jars/{jar_id}/plan", json={}),
            ):
                assert [node["description"] for node in answer["plan"]["nodes"]] == ["lines -&gt; out"]
                assert answer["plan"]["name"] == "from a file"
            assert blobs(rest) == set()
            assert (await rest.get("/jobs"))["jobs"] == []
            started = await post(rest, f"/jars/{jar_id}/run-application?programArg=input=/data", 202, content=b"")
            await rest.finish(started["applicationid"])

    do(story())


def test_one_of_several_pipelines_is_chosen_and_the_same_run_again_is_the_same_job(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            jar_id, packed = await upload(rest, "two.py", TWO), await upload(rest, "two.zip", zipped({"two.py": TWO}))
            assert "choose one" in (await post(rest, f"/jars/{jar_id}/run", 400, json={}))["errors"][0]
            assert (
                "choose one of two:one, two:two" in (await post(rest, f"/jars/{packed}/run", 400, json={}))["errors"][0]
            )
            body = {"entryClass": "two", "jobId": derived_id("x")}
            assert "no pipeline 'three'" in str(
                await post(rest, f"/jars/{jar_id}/run", 400, json={"entryClass": "three"})
            )
            assert "no three.py" in str(await post(rest, f"/jars/{packed}/run", 400, json={"entryClass": "three"}))
            for path in (f"/jars/{packed}/run?entry-class=two:two", f"/jars/{jar_id}/run?entry-class=two.py:two"):
                started = await post(rest, path, json={})
                assert (await rest.finish(started["jobid"]))["name"] == "2"
            await post(rest, f"/jars/{jar_id}/run", json={"entryClass": "one", "jobId": derived_id("x")})
            await rest.finish(derived_id("x"))
            assert "ended already" in str(await post(rest, f"/jars/{jar_id}/run", 409, json=body))

    do(story())


WRONG = {
    "import firesteel as fs\npipeline = fs.Pipeline('x')\nraise ValueError('oops')\n": "(wrong.py:3): loading the file raised ValueError: oops",
    "import firesteel\nx = (\n": "was never closed",
    "import firesteel, os\nos._exit(3)\n": "ended with status 3",
    "import firesteel, os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n": "ended with status -9",
    "import firesteel\n": "wrong.py has no pipeline",
    "import firesteel, nothing_of_that_name\n": "nothing_of_that_name",
}


def test_code_that_is_wrong_harms_nobody_and_is_told(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            for text, says in WRONG.items():
                jar_id = await upload(rest, "wrong.py", text)
                told = (await post(rest, f"/jars/{jar_id}/run", 400, json={}))["errors"][0]
                assert says in told, told
                assert "builds" not in told
            assert blobs(rest) == set()
            assert (await rest.get("/jobs"))["jobs"] == []
            assert (await rest.get("/overview"))["taskmanagers"] == 1

    do(story())


NO_PIPELINES = (
    ("wordcount.jar", b"x", "PySpark pipelines, and no jar files"),
    ("pipeline.pkl", pickle.dumps([1]), "ends in one of"),
    ("pickle.py", pickle.dumps([b"\xff"]), "not UTF-8"),
    ("nul.py", b"x = 1\0", "bytes that no text has"),
    ("empty.py", b" \n", "is empty"),
    ("broken.zip", zipped({"a.py": TWO})[:-30], "can't be unpacked"),
    ("text.whl", b"x = 1", "can't be unpacked"),
    ("x" * 250 + ".py", b"x = 1", "ends in one of"),
    ("../up.py", b"x = 1", "no plain file name"),
    ("a/b.py", b"x = 1", "no plain file name"),
    ("", b"x = 1", "no plain file name"),
)


def test_what_is_no_file_of_a_pipeline_is_not_kept(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, workers=0) as rest:
            for name, content, says in NO_PIPELINES:
                disposition = f'form-data; name="jarfile"; filename="{name}"'
                body = b"--b\r\nContent-Disposition: %s\r\n\r\n%s\r\n--b--\r\n" % (disposition.encode(), content)
                headers = {"Content-Type": "multipart/form-data; boundary=b"}
                answer = await post(rest, "/jars/upload", 400, content=body, headers=headers)
                assert says in answer["errors"][0], name
                assert left_over(tmp_path) == [], name
            assert (await rest.get("/jars"))["files"] == []

    do(story())


def test_a_line_without_end_is_looked_through_at_once(tmp_path: Path) -> None:
    """An expression that tries all its parts would hold the master up for hours."""
    (tmp_path / "long.py").write_bytes(b"a" * 1_000_000 + b"\np = fs.Pipeline('x')\n")
    assert declared_pipelines(tmp_path / "long.py") == ("p",)


def left_over(tmp_path: Path) -> list[Path]:
    return [path for name in ("jars", "uploads") for path in (tmp_path / "rest" / name).rglob("*")]


def test_bad_requests(tmp_path: Path, do: Do, monkeypatch) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            jar_id = await upload(rest, "wordcount.py", PIPELINE)
            for body in (
                {"programArgsList": ["nonsense"]},
                {"programArgsList": ["input=1", "--input", "2"]},
                {"programArgsList": "input=1"},
                {"programArgsList": ["input=1"], "parallelism": 0},
                {"programArgsList": ["input=1"], "parallelism": "many"},
                {"programArgsList": ["input=1"], "jobId": "x"},
                {"programArgsList": ["input=1"], "flinkConfiguration": {"no.such.option": "1"}},
                {"programArgsList": ["input=1"], "overrides": {"wrds.parallelism": "4"}},
                {"programArgsList": ["input=1"], "savepointPath": "/nowhere"},
                {"programArgsList": ["input=1", "color=red"]},
                {},
            ):
                assert (await post(rest, f"/jars/{jar_id}/run", 400, json=body))["errors"]
            legacy, unknown = "LEGACY is not there: in Flink", "none of NO_CLAIM, CLAIM."
            for name, mode, why in (("restoreMode", "LEGACY", legacy), ("claimMode", "MINE", unknown)):
                refused = {"programArgsList": ["input=1"], "savepointPath": "/nowhere", name: mode}
                answer = await post(rest, f"/jars/{jar_id}/run", 400, json=refused)
                assert f"claimMode={mode}: {why}" in answer["errors"][0]
            for mode in ("NO_CLAIM", "claim"):
                taken = {"programArgsList": ["input=1"], "savepointPath": "/nowhere", "claimMode": mode}
                answer = await post(rest, f"/jars/{jar_id}/run", 400, json=taken)
                assert "claimMode" not in answer["errors"][0]
            await post(rest, f"/jars/{jar_id}/run", 400, content=b'{"programArgsList": [')
            for other in ("nothing", f"{'0' * 32}_wordcount.py", "..%2fjars%2f" + jar_id, f"{jar_id}.json", "%00"):
                await post(rest, f"/jars/{other}/run", 404, json={})
                assert (await rest.http.delete(f"/jars/{other}")).status_code == 404
            await post(rest, "/jars/upload", 400, files=[("a", ("a.py", b"x")), ("b", ("b.py", b"x"))])
            await post(rest, "/jars/upload", 400, files=[("a", ("a.py", b"x")), ("b", ("a.py", b"x"))])
            await post(rest, "/jars/upload", 400, data={"a": "b"}, files={})
            assert [jar["id"] for jar in (await rest.get("/jars"))["files"]] == [jar_id]
            assert (await rest.get("/jobs"))["jobs"] == []
            monkeypatch.setattr("firesteel.rest.jars.FILES_MAX", 1)
            assert "no room" in (await upload(rest, "one.py", TWO, 413))["errors"][0]

    do(story())


def test_without_a_worker_nothing_can_be_read(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, workers=0) as rest:
            jar_id = await upload(rest, "wordcount.py", PIPELINE)
            assert "no worker" in (await post(rest, f"/jars/{jar_id}/run", 503, json={}))["errors"][0]
            assert blobs(rest) == set()

    do(story())


def test_who_may_do_what(tmp_path: Path, do: Do) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(USERS)

    def of(token: str) -> dict[str, Any]:
        return {"headers": {"Authorization": f"Bearer {token}"}}

    async def story() -> None:
        async with rest_cluster(tmp_path, options={"rest.users-file": str(file)}, headers={}) as rest:
            await upload(rest, "two.py", TWO, 403, **of("a"))
            jar_id = await upload(rest, "two.py", TWO, **of("g"))
            assert [jar["id"] for jar in (await rest.http.get("/jars", **of("a"))).json()["files"]] == [jar_id]
            await post(rest, f"/jars/{jar_id}/run", 403, json={"entryClass": "one"}, **of("a"))
            await post(rest, f"/jars/{jar_id}/plan", 403, json={"entryClass": "one"}, **of("a"))
            started = await post(rest, f"/jars/{jar_id}/run", json={"entryClass": "one"}, **of("h"))
            view = (await rest.http.get(f"/jobs/{started['jobid']}/view", **of("a"))).json()
            assert view["owner"] == "hedy"
            for token, status in (("a", 403), ("h", 403), ("g", 200)):
                assert (await rest.http.delete(f"/jars/{jar_id}", **of(token))).status_code == status
            other = await upload(rest, "two.py", TWO, **of("h"))
            assert (await rest.http.delete(f"/jars/{other}", **of("l"))).status_code == 403  # operate alone: no submit
            await rest.http.get("/overview", **of("a"))

    do(story())
