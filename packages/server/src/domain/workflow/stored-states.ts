/**
 * States of tasks as they are stored: a byte a task, a digit an item of a mapped task. Their order in the
 * contract's list is what stands in the database, so words are only ever added at its end.
 */
import { type TaskState, taskStates } from '@belfry/contract'

export interface StoredItems {
  /** A digit an item. */
  readonly states: string
  /** How many of them were given a run, in their order. */
  readonly launched: number
}

const codeOf = new Map(taskStates.map((state, code) => [state, code]))
const stateOf = (code: number): TaskState => taskStates[code] ?? 'waiting_for_dependencies'

export const packStates = (states: readonly TaskState[]): Uint8Array =>
  Uint8Array.from(states, (state) => codeOf.get(state) ?? 0)

export const unpackStates = (bytes: Uint8Array): TaskState[] => Array.from(bytes, stateOf)

/** By the number of the task. */
export function packItems(
  items: ReadonlyMap<number, readonly TaskState[]>,
  launched: ReadonlyMap<number, number>,
): Record<string, StoredItems> {
  return Object.fromEntries(
    [...items].map(([task, states]) => {
      const digits = states.map((state) => codeOf.get(state) ?? 0).join('')
      return [String(task), { states: digits, launched: launched.get(task) ?? states.length }]
    }),
  )
}

export function unpackItems(stored: Readonly<Record<string, StoredItems>>): {
  readonly items: Map<number, TaskState[]>
  readonly launched: Map<number, number>
} {
  const entries = Object.entries(stored).map(([task, value]) => [Number(task), value] as const)
  return {
    items: new Map(
      entries.map(([task, { states }]) => [task, Array.from(states, (digit) => stateOf(Number(digit)))]),
    ),
    launched: new Map(entries.map(([task, { launched }]) => [task, launched])),
  }
}
