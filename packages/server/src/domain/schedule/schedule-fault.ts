// What is wrong with a schedule, as a value. The pointer is a JSON pointer into the schedule as a person
// wrote it, such as /cron/minute, /cron, /zone, /at, /rate or /endAt; the message says what is wrong and how
// to mend it.

export type ScheduleFault = { readonly pointer: string; readonly message: string }

export function fault(pointer: string, message: string): ScheduleFault {
  return { pointer, message }
}

/** Begins the message of every fault that says: well written, but no time ever comes of it. */
const NEVER_FIRES = 'never fires'

export function isNeverFires(fault: ScheduleFault): boolean {
  return fault.message.startsWith(NEVER_FIRES)
}
