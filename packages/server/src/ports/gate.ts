/**
 * The gate, as the gatekeeper works it (engine/gatekeeper.ts): whose limits have something to be done, and
 * one look at those of a tenant. A look is whole or nothing, and may be taken by anybody at any time.
 */
import type { LetGo } from './run-store.ts'

export interface GateWork {
  /** Tenants to be looked at now. */
  readonly tenantIds: readonly string[]
  /** Tenants whose limits were changed: a step of the walk over their runs is due. */
  readonly regateIds: readonly string[]
  /** How long until something is due by itself; null: nothing is. */
  readonly nextMs: number | null
  /** Somebody waits behind the gate. */
  readonly held: boolean
  /** There is a job with limits. */
  readonly limited: boolean
}

export interface GateLook extends LetGo {
  readonly opened: number
  readonly skipped: number
  readonly replaced: number
  /** Queues in which something may be claimed now. */
  readonly queues: readonly string[]
  /** Sessions that run something that was asked to cancel. */
  readonly sessionIds: readonly string[]
  /** There is more to do at once. */
  readonly again: boolean
}

export interface RegateStep {
  /** There is more of it at once. */
  readonly more: boolean
  /** How often the walk has been done, and is to be done again; 0: never, or no more. */
  readonly walks: number
}

export interface Gate {
  work(): Promise<GateWork>
  /** Undefined: somebody else is at it. */
  look(tenantId: string): Promise<GateLook | undefined>
  /** A step of the walk after a change of limits. */
  regate(tenantId: string): Promise<RegateStep>
  /**
   * Looks for what no event tells of: heads of lines that are gone, runs that nobody claims. Answers whether
   * there is something to look at now.
   */
  tidy(): Promise<boolean>
  /** Runs of all tenants behind the gate; at most so many are counted. */
  countHeld(most: number): Promise<number>
}
