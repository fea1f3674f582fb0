"""A node of Kubernetes that has no containers: its pods are processes of this machine.

It does of a kubelet's work what Spark's executors need: its node is ready and has a size, and a pod that the scheduler has
given it runs, ends, and is deleted. Of a pod's image nothing is used but what it begins with, `deploy/entrypoint.sh`, on this
machine's installation.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from firesteel.adapters.spark.jvm.launch import find_installation
from tests.durable.zookeeper import DIES_WITH_PARENT
from tests.tidy.source import ROOT

NODE, ADDRESS = "node-1", "127.0.0.1"
LOOK_S = 0.1
MERGE = {"Content-Type": "application/merge-patch+json"}
ENTRYPOINT = ROOT / "deploy" / "entrypoint.sh"
HERE = {"FIRESTEEL_HOME": sys.prefix, "JAVA_HOME": str(Path(find_installation().java).parents[1])}
"""Where the image has what it begins."""
KILLED_BY_KERNEL = 137
"""Exit code of a process that was killed, as for a lack of memory."""

Object = dict[str, Any]


class Kubelet:
    """Runs until `stop`. `processes`: of the pods that run, by their names."""

    def __init__(self, admin: Callable[[], httpx.Client], directory: Path, cpu: str = "4") -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.problems: list[BaseException] = []
        self._admin, self._directory, self._cpu = admin(), directory, cpu
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")

    def start(self) -> None:
        self._directory.mkdir(parents=True)
        self._register()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join()
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._admin.close()

    def grow(self, cpu: str) -> None:
        """The node has so many cores from now on."""
        room = {"cpu": cpu, "memory": "16Gi", "pods": "50"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastHeartbeatTime": _now(),
        }
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{**ready, "lastTransitionTime": _now()}],
            "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        }
        self._change(f"/api/v1/nodes/{NODE}/status", {"status": status})

    def _register(self) -> None:
        labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE, "labels": labels}}
        self._admin.post("/api/v1/nodes", json=node).raise_for_status()
        self.grow(self._cpu)
        self._change(f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})  # as a controller does with one that is ready

    def _run(self) -> None:
        while not self._is_stopped.wait(LOOK_S):
            try:
                for pod in self._pods():
                    self._look_after(pod)
            except httpx.TransportError:
                continue  # the server may be away
            except BaseException as error:
                self.problems.append(error)
                raise

    def _pods(self) -> list[Object]:
        answer = self._admin.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={NODE}"}).raise_for_status()
        pods: list[Object] = answer.json()["items"]
        return pods

    def _look_after(self, pod: Object) -> None:
        name, process = pod["metadata"]["name"], self.processes.get(pod["metadata"]["name"])
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod, process)
        elif pod["status"]["phase"] == "Pending" and process is None:
            self._begin(pod)
        elif process is not None and process.poll() is not None:
            del self.processes[name]
            self._report(pod, *_how_it_ended(process.returncode))

    def _begin(self, pod: Object) -> None:
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        own = self._directory / pod["metadata"]["uid"]
        own.mkdir()
        given = {each["name"]: _value(each, name) for each in container["env"]}
        with open(self._directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [*DIES_WITH_PARENT, str(ENTRYPOINT), *container["args"]],
                env={**os.environ, **HERE, **given, "SPARK_LOCAL_DIRS": str(own)},
                cwd=own,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._report(pod, "Running", {"running": {"startedAt": _now()}})

    def _end(self, pod: Object, process: "subprocess.Popen[bytes] | None") -> None:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()
        self.processes.pop(pod["metadata"]["name"], None)
        self._admin.request("DELETE", _path(pod), json={"gracePeriodSeconds": 0})

    def _report(self, pod: Object, phase: str, state: Object) -> None:
        (container,) = pod["spec"]["containers"]
        is_running = phase == "Running"
        told = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": is_running,
            "restartCount": 0,
            "state": state,
        }
        status = {
            "phase": phase,
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "startTime": pod["status"].get("startTime", _now()),
            "containerStatuses": [told],
        }
        self._change(f"{_path(pod)}/status", {"status": status})

    def _change(self, path: str, patch: Object) -> None:
        answer = self._admin.patch(path, json=patch, headers=MERGE)
        assert answer.status_code in (200, 404), answer.text


def _value(variable: Object, pod_name: str) -> str:
    if "value" in variable or "valueFrom" not in variable:
        return str(variable.get("value", ""))
    field = variable["valueFrom"]["fieldRef"]["fieldPath"]
    return {"status.podIP": ADDRESS, "metadata.name": pod_name}[field]


def _how_it_ended(code: int) -> tuple[str, Object]:
    """Phase of the pod, and state of its container."""
    told = code if code >= 0 else 128 - code
    reason = "Completed" if told == 0 else "OOMKilled" if told == KILLED_BY_KERNEL else "Error"
    ended = {"terminated": {"exitCode": told, "reason": reason, "finishedAt": _now()}}
    return ("Succeeded" if told == 0 else "Failed"), ended


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
