// Whether an event is about a job.
export const ofJob = (jid) => (event) => event.data?.jid === jid;
