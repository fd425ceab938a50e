/**
 * What is said of a task that is over because of the workflow run, or runs, that were begun for it: which
 * these are, and the command that goes on there. Pure.
 */
import type { TaskState } from '@belfry/contract'
import type { FailedChild } from '../../ports/workflow-insight.ts'

/** Children of a task that are named. */
export const mostChildren = 3

/** By task; in the order of the store. */
export function childrenByTask(
  children: readonly FailedChild[],
): ReadonlyMap<number, readonly FailedChild[]> {
  const byTask = new Map<number, readonly FailedChild[]>()
  for (const child of children) byTask.set(child.task, [...(byTask.get(child.task) ?? []), child])
  return byTask
}

/** "Its workflow run 019a… failed: …"; of a list which items failed, how many, and why the first of them. */
export function childWords(
  children: readonly FailedChild[],
  state: TaskState | undefined,
  items: readonly TaskState[] | undefined,
  cause: string | null,
): string {
  const ended = state === 'canceled' ? 'was canceled' : 'failed'
  const why = cause === null ? '.' : `: ${cause}`
  const [first] = children
  if (items === undefined || first === undefined || first.item === null)
    return `Its workflow run ${first?.childId ?? ''} ${ended}${why}`
  const total = Math.max(children.length, items.filter((each) => each === state).length)
  const named = children.map(({ item, childId }) => `item ${item} (${childId})`).join(', ')
  const more = total > children.length ? ` and ${(total - children.length).toLocaleString('en')} more` : ''
  const count = `${total.toLocaleString('en')} of ${items.length.toLocaleString('en')}`
  const became = total === 1 || state !== 'canceled' ? ended : 'were canceled'
  const head = `Of its workflow runs ${count} ${became}`
  return `${head}: ${named}${more}.${cause === null ? '' : ` Item ${first.item}: ${cause}`}`
}

export function childFix({ childId }: FailedChild): string {
  return (
    `Go on there: belfry workflow-run explain ${childId}. Mend the cause, then rerun what failed here, or ` +
    'mark the task where it was done by hand.'
  )
}
