/**
 * The slots of runs that leave `ready`, or go back behind the gate, are freed in the statement that sees to
 * that: so nobody can die between the two. By a function, as followers are let go: the statement itself looks
 * with a snapshot that may be older than the slots. It waits for a row that the gate is opening, or follows
 * it, and then sees `slotted` but no slot; they would count for ever.
 */

/** A column for the last SELECT; `rows`: what was locked, with `slotted`. Costs nothing where none is. */
export const freeSlots = (rows: string): string =>
  `(SELECT belfry.free_slots(array_agg(run_id) FILTER (WHERE slotted)) FROM ${rows}) AS freed`
