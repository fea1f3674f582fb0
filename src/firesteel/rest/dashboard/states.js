// States of jobs and attempts: to what group of states each belongs, which has a colour, a sign and a filter of its own.

export const GROUPS = ["waiting", "running", "trouble", "finished", "failed", "cancelled"];

const GROUP_OF = {
  INITIALIZING: "waiting", CREATED: "waiting", SCHEDULED: "waiting", DEPLOYING: "running",
  RUNNING: "running", FINISHED: "finished", FAILED: "failed", CANCELED: "cancelled",
  FAILING: "trouble", RESTARTING: "trouble", CANCELLING: "trouble", CANCELING: "trouble",
  SUSPENDED: "trouble", RECONCILING: "trouble",
};

export const GROUP_NAMES = {
  waiting: "Waiting", running: "Running", trouble: "Changing", finished: "Finished", failed: "Failed", cancelled: "Cancelled",
};

// In the order of their numbers: views have states of attempts by number.
export const EXECUTION_STATES = [
  "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED", "RECONCILING",
];

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED"]);

export const executionState = (number) => (typeof number === "number" ? EXECUTION_STATES[number] : number);

export function groupOf(state) {
  return GROUP_OF[state] ?? "waiting";
}

export function hasEnded(state) {
  return ENDED.has(state);
}

// A job that runs by its state and has nothing running yet waits for slots, or for what it reads.
export function groupOfJob(line) {
  return line.reason && !hasEnded(line.state) && line.state !== "CANCELLING" && !line.tasks?.running ? "waiting" : groupOf(line.state);
}
