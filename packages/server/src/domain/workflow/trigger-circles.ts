/**
 * Workflows that begin each other by their ends, in a circle: each run begins the next, until a bound stops
 * it. Allowed, since a state or a condition may end it, and yet likely not meant. Pure.
 */
import type { WorkflowDefinition } from '@belfry/contract'
import type { WorkflowWarning } from './definition.ts'

/** The end of a run of `ended` begins one of `begins`. */
export interface TriggerEdge {
  readonly ended: string
  readonly begins: string
}

/** Workflows that begin each other in a circle stop here. */
export const mostChained = 50

/** A warning where the end of a run of this workflow leads to its own begin; the shortest way is named. */
export function triggerCircles(
  name: string,
  { triggers }: Pick<WorkflowDefinition, 'triggers'>,
  edges: readonly TriggerEdge[],
): WorkflowWarning[] {
  const from = new Map([[name, '']])
  const queue = [name]
  const follows = Map.groupBy(edges, ({ ended }) => ended)
  for (const at of queue) {
    for (const { begins } of follows.get(at) ?? []) {
      if (begins === name) return [warningOf(name, at, from, triggers)]
      if (from.has(begins)) continue
      from.set(begins, at)
      queue.push(begins)
    }
  }
  return []
}

function warningOf(
  name: string,
  last: string,
  from: ReadonlyMap<string, string>,
  triggers: WorkflowDefinition['triggers'],
): WorkflowWarning {
  const path = [name]
  for (let at = last; at !== name && at !== ''; at = from.get(at) ?? '') path.unshift(at)
  const index = triggers.findIndex((trigger) => 'workflow' in trigger && trigger.workflow === last)
  const message =
    `begins each other in a circle: ${[name, ...path].join(' → ')}; after ${mostChained} runs it is ` +
    'stopped, so take one of these triggers out'
  return { code: 'trigger_circle', pointer: `/triggers/${index}`, message }
}
