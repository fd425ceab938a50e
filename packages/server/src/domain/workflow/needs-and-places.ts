/**
 * What a task says twice or over itself: a task that it needs, or takes down, more than once, and values of
 * its input that go to the same place, or one inside the other, so that which of them stands depends on
 * their order. Linear.
 */
import type { WorkflowTask } from '@belfry/contract'
import type { WorkflowFault } from './validate.ts'

/** Names that reach behind an object in JavaScript; whoever reads such an input might be led astray. */
const unsafeNames: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

export function repeatedNeeds({ needs, teardownOf }: WorkflowTask, pointer: string): WorkflowFault[] {
  const setups = typeof teardownOf === 'object' ? teardownOf : []
  return [...repeated(needs, `${pointer}/needs`), ...repeated(setups, `${pointer}/teardownOf`)]
}

function repeated(ids: readonly string[], pointer: string): WorkflowFault[] {
  const firsts = new Map<string, number>()
  return ids.flatMap((id, index): WorkflowFault[] => {
    const first = firsts.get(id)
    if (first === undefined) {
      firsts.set(id, index)
      return []
    }
    const message = `names "${id}" a second time, after ${pointer}/${first}; keep one of them`
    return [{ code: 'duplicate_need', pointer: `${pointer}/${index}`, message }]
  })
}

export function placeFaults({ inputFrom }: WorkflowTask, pointer: string): WorkflowFault[] {
  const places = inputFrom.map(({ to }) => to)
  const firsts = new Map<string, number>()
  for (const [index, to] of places.entries()) if (!firsts.has(to)) firsts.set(to, index)
  return places.flatMap((to, index): WorkflowFault[] => {
    const at = `${pointer}/inputFrom/${index}/to`
    const first = firsts.get(to)
    if (first !== index) {
      const other = `${pointer}/inputFrom/${first}`
      const message = `goes to the same place as ${other}; give each its own, or keep one`
      return [{ code: 'same_place', pointer: at, message }]
    }
    const outer = placesAround(to).find((each) => firsts.has(each))
    if (outer === undefined) return []
    const other = `${pointer}/inputFrom/${firsts.get(outer)}`
    const words = `"${to}" lies inside "${outer}", where ${other} puts its value`
    return [{ code: 'same_place', pointer: at, message: `${words}; give each a place of its own` }]
  })
}

/** Mappings whose place has a name that no input may have. */
export function unsafePlaces(mappings: readonly { readonly to: string }[], pointer: string): WorkflowFault[] {
  return mappings.flatMap(({ to }, index): WorkflowFault[] => {
    const name = to.split('/').find((segment) => unsafeNames.has(segment))
    if (name === undefined) return []
    const message = `names "${name}", which has a meaning of its own in JavaScript; use another name`
    return [{ code: 'unsafe_place', pointer: `${pointer}/${index}/to`, message }]
  })
}

/** The outermost first; not the place itself. */
function placesAround(to: string): string[] {
  const segments = to.split('/')
  return segments.slice(1).map((_, count) => segments.slice(0, count + 1).join('/'))
}
