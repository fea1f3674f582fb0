"""The processes of a level B run: who leads, who comes and goes, and what goes wrong with them."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from firesteel.model.options import Configuration
from firesteel.testing.backend import TaskScript
from firesteel.testing.power import FakeSystem
from firesteel.testing.simulation.endpoints.loop import Process, SimulatedLoop
from firesteel.testing.simulation.endpoints.processes import Ground, MasterProcess, WorkerProcess
from firesteel.testing.simulation.endpoints.transport import SimulatedNetwork
from firesteel.testing.simulation.mishaps import Mishaps

FAULTY_S = 60.0
"""Simulated time in which things go wrong."""

STOP_S = 60.0
"""Simulated time in which a process must have stopped, with all that it has under way."""

STOPPED_S = 1.0
"""Time in which the requests that met a process as it stopped have their answers."""

DEEDS = (
    "crash master",
    "depose",
    "pause",
    "session",
    "suspend",
    "crash worker",
    "stop worker",
    "stall",
    "break",
    "cut",
    "task",
)
"""What goes wrong by the clock; a seed has some of them."""

MASTERS_DEEDS = ("crash master", "depose", "pause", "session", "suspend")
"""Those of them of which workers and what runs there need not notice anything."""


class Hosts:
    """Two masters on one disk, and workers. `tell` takes lines of the story, `failed` what must not happen."""

    def __init__(self, mishaps: Mishaps, note: Callable[[str], None], failed: Callable[[str], None]) -> None:
        self.mishaps, self._note, self._failed = mishaps, note, failed
        chance = mishaps.stream("run")
        self.loop = SimulatedLoop(mishaps.stream("loop"), chance.choice((0.0, 0.002, 0.3)), failed)
        self.loop.on_power_cut = self._power_cut
        network = SimulatedNetwork(self.loop, mishaps.stream("network"), chance.choice((0.0, 0.005, 0.2)))
        system = FakeSystem(mishaps.stream("disk"), meddle=self._meddle)
        self.disk_error = chance.choice((0.0, 0.0, 0.002, 0.02))
        self.power_cut = chance.choice((0.0, 0.0, 0.0, 0.002))
        pauses = chance.choice(((0.0,), (0.0, 0.001, 0.1, 2.0), (0.1, 8.0)))
        work = mishaps.stream("work")
        script = TaskScript(pause_s=lambda: work.choice(pauses))
        self.ground = Ground(self.loop, network, system, _config(chance.random()), script, failed)
        self.masters: list[MasterProcess] = []
        self.workers: list[WorkerProcess] = []
        self.leading: MasterProcess | None = None
        self.epoch = self._names = 0
        self.outside = Process("outside")
        """What is in no process of the cluster: clients, and fate."""

    def _later(self, delay_s: float, action: Callable[..., object], *args: Any) -> None:
        """Something that happens to processes, whichever of them is at work now."""
        self.loop.call_later(delay_s, action, *args, context=self.outside.context.copy())

    def heal(self) -> None:
        self._note("healed")
        self.mishaps.is_over = True
        self.ground.network.heal()
        for each in self.processes():
            each.process.stalled_until_s = 0.0
            self.loop.resume(each.process)
        for master in self.masters:
            master.soon(master.certain.set)
            if master is not self.leading:
                master.depose()
        if self.leading is None:
            self.lead(self.masters[0])

    # ── processes ────────────────────────────────────────────────────────────────────────────
    def processes(self) -> list[MasterProcess | WorkerProcess]:
        """Those that live; workers first, as they have to stop first."""
        return [*self.workers, *self.masters]

    def start_master(self) -> None:
        self._names += 1
        master = MasterProcess(self.ground, f"master-{self._names}")
        self._note(f"{master.name} starts")
        self.masters.append(master)
        master.start()

    def start_worker(self) -> None:
        self._names += 1
        worker = WorkerProcess(self.ground, f"worker-{self._names}", self.masters[0].name)
        self._note(f"{worker.name} starts")
        self.workers.append(worker)
        self.loop.spawn(worker.start(), worker.process)
        if self.leading is not None:
            worker.ask_at(self.leading.name)

    def lead(self, master: MasterProcess) -> None:
        self.epoch += 1
        self._note(f"{master.name} leads, in epoch {self.epoch}")
        self.leading = master
        master.lead(self.epoch)
        for worker in self.workers:
            delay_s = self.mishaps.stream("told").uniform(0.0, 2.0)
            self._later(delay_s, self._announce_leader, worker, master.name)

    def _announce_leader(self, worker: WorkerProcess, leader: str) -> None:
        if self.leading is not None and self.leading.name == leader:
            worker.ask_at(leader)

    def _other(self) -> MasterProcess:
        return next(master for master in self.masters if master is not self.leading)

    def _crash_master(self, master: MasterProcess) -> None:
        self._note(f"{master.name} crashes")
        master.crash()
        self.masters.remove(master)
        self.start_master()
        if self.leading is master:
            self.leading = None
            self._later(self.mishaps.stream("takeover").uniform(0.0, 5.0), self._take_over)

    def _take_over(self) -> None:
        if self.leading is None:
            self.lead(self.masters[0])

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────
    async def repeat(self, deed: str, every_s: float) -> None:
        chance = self.mishaps.stream(f"when:{deed}")
        act = getattr(self, f"_do_{deed.replace(' ', '_')}")
        while self.loop.time() < FAULTY_S:
            await asyncio.sleep(chance.uniform(0.1, 2 * every_s))
            who, how = chance.random(), chance.random()
            if self.mishaps.strikes(deed):
                self._note(deed)
                act(who, how)

    def _do_crash_master(self, who: float, how: float) -> None:
        self._crash_master(self.masters[int(who * len(self.masters))])

    def _do_depose(self, who: float, how: float) -> None:
        """Another one leads; the old one hears of it later, and stays as a standby."""
        old, new = self.leading, self._other()
        if old is None:
            return
        self.lead(new)
        self._later(5.0 * how, self._notice, old)

    def _notice(self, old: MasterProcess) -> None:
        if self.leading is not old:
            old.depose()

    def _do_pause(self, who: float, how: float) -> None:
        """The leader stands still; it wakes up, and finds that another one leads."""
        if self.leading is not None:
            self.loop.stall(self.leading.process, self.loop.time() + 10.0 * how)
            self._later(10.0 * how * who, self._do_depose, who, how)

    def _do_session(self, who: float, how: float) -> None:
        """A component loses its leader, who leads it anew at once or later."""
        master = self.leading
        if master is None:
            return
        known = master.election.components()
        if known:
            component = known[int(who * len(known))]

            def revoke() -> None:
                with contextlib.suppress(LookupError):
                    master.election.revoke(component)

            def grant() -> None:
                if self.leading is master:
                    with contextlib.suppress(LookupError):
                        master.election.grant(component)

            master.soon(revoke)
            self._later(2.0 * how, master.soon, grant)

    def _do_suspend(self, who: float, how: float) -> None:
        """The leader can't reach the register for a while: nothing is written until it can."""
        if self.leading is not None:
            self.leading.soon(self.leading.certain.clear)
            self._later(10.0 * how, self.leading.soon, self.leading.certain.set)

    def _do_crash_worker(self, who: float, how: float) -> None:
        worker = self.workers.pop(int(who * len(self.workers)))
        worker.crash()
        if how < 0.5:
            mine = {record.attempt for record in self.ground.script.attempts if record.worker == worker.name}
            for name in [name for name, made in self.ground.script.stored.items() if made in mine]:
                if "/sink/" not in name:
                    del self.ground.script.stored[name]
        self.start_worker()

    def _do_stop_worker(self, who: float, how: float) -> None:
        worker = self.workers.pop(int(who * len(self.workers)))
        self.start_worker()
        self.loop.spawn(self._stop_worker(worker), self.outside)

    async def _stop_worker(self, worker: WorkerProcess) -> None:
        task = self.loop.spawn(worker.stop(), worker.process)
        await asyncio.wait([task], timeout=STOP_S)
        assert task.done(), f"{worker.name} does not stop"
        await asyncio.sleep(STOPPED_S)
        left = [*self.loop.left_of(worker.process), *worker.left()]
        if left:
            self._failed(f"{worker.name} has stopped, and has left {left}")
        self.ground.network.leave(worker.process)

    def _do_stall(self, who: float, how: float) -> None:
        processes = [each.process for each in self.processes()]
        self.loop.stall(processes[int(who * len(processes))], self.loop.time() + 20.0 * how)

    def _do_break(self, who: float, how: float) -> None:
        for worker in self.workers:
            if self.leading is not None:
                self.ground.network.break_connection(self.leading.name, worker.name)

    def _do_cut(self, who: float, how: float) -> None:
        worker = self.workers[int(who * len(self.workers))]
        for master in self.masters:
            self.ground.network.cut(master.name, worker.name, self.loop.time() + 20.0 * how)

    def _do_task(self, who: float, how: float) -> None:
        self.ground.script.fail(f"v{int(who * 4)}", times=1 + int(how * 3))

    def _meddle(self) -> None:
        """At every call to the operating system."""
        kinds = (("disk-error", self.disk_error), ("power", self.power_cut))
        match self.mishaps.one_of("disk", kinds):
            case "disk-error":
                self.ground.system.fill_up()
            case "power":
                self.ground.system.cut()
            case _:
                pass

    def _power_cut(self) -> None:
        self._note("the power is cut")
        self.ground.system.restart()
        for master in list(self.masters):
            self._crash_master(master)
        self.leading = None
        self._take_over()


def _config(chance: float) -> Configuration:
    """Short times, long times, and those that come with it."""
    beats = {"heartbeat.interval": "1 s", "heartbeat.timeout": "4 s"} if chance < 0.5 else {}
    return Configuration(
        {
            "taskmanager.numberOfTaskSlots": "2",
            "taskmanager.cpu.cores": "2",
            "jobstore.retryable.max-capacity": "1",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "50 ms",
            "restart-strategy.fixed-delay.attempts": "1000",
            "slot.idle.timeout": "2 s",
            "taskmanager.master-grace": "1 h",
            **beats,
        }
    )
