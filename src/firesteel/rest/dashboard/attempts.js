// Places in a row of /attempts.
export const ROW = { vertex: 0, subtask: 1, attempt: 2, state: 3, worker: 4, deployed: 5, running: 6, ended: 7, rowsRead: 8, bytesRead: 9, rowsWritten: 10, bytesWritten: 11, followed: 12, sparkTime: 13, memoryPeak: 14 };
