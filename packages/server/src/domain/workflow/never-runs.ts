/**
 * Tasks that can never run: the states in which a rule lets each direct parent be are asked from the rule
 * itself (trigger-rules.ts), and a condition is held against them and against itself. Only what no outcome,
 * no cancel and no mark by hand could bring about is a fault; what a cancel alone would start is a warning.
 */
import { type Condition, type TaskState, taskStates, type TriggerRule } from '@belfry/contract'
import { compare } from './condition.ts'
import { setupsOf, type TaskShape } from './plan.ts'
import { countEnded, judgeRule, noParents, startsWithoutWaiting, tallyOf } from './trigger-rules.ts'

type States = ReadonlySet<TaskState>
type Leaf = Exclude<
  Condition,
  { readonly all: unknown } | { readonly any: unknown } | { readonly not: unknown }
>

const anyState: States = new Set(taskStates)
const endedStates = taskStates.filter((state) => state !== 'started' && state !== 'waiting_for_dependencies')

/** The states that a parent may be in when the rule of its child lets the child run. */
function statesUnder(rule: TriggerRule, parent: TaskShape, isSole: boolean): States {
  // others may start it while this one is still at work
  if (rule === 'always' || (startsWithoutWaiting(rule) && !isSole)) return anyState
  const fellows: (readonly TaskState[])[] = isSole ? [[]] : endedStates.map((state) => [state])
  const runs = (state: TaskState): boolean =>
    fellows.some((others) => {
      const counts = noParents(1)
      countEnded(counts, tallyOf([state], parent.allowFailure))
      counts.waiting += 1
      countEnded(counts, tallyOf(others, false))
      return judgeRule(rule, counts) === 'run'
    })
  return new Set(endedStates.filter(runs))
}

/** Why the condition of a task can never hold; undefined: it can, as far as can be told. */
export function whyNever(shape: TaskShape, byId: ReadonlyMap<string, TaskShape>): string | undefined {
  // whether a teardown runs is decided by its setups alone
  if (shape.when === undefined || setupsOf(shape).length > 0) return undefined
  const isSole = new Set(shape.needs).size === 1
  const statesOf = (id: string): States => {
    const parent = byId.get(id)
    // the items of a mapped parent count one by one, each as a parent of its own
    return parent === undefined || !shape.needs.includes(id)
      ? anyState
      : statesUnder(shape.rule, parent, isSole && !parent.mapped)
  }
  return whyImpossible(shape.when, shape, statesOf)
}

/** Conditions that all have to hold. */
const conjuncts = (condition: Condition): readonly Condition[] =>
  'all' in condition ? condition.all.flatMap(conjuncts) : [condition]

function whyImpossible(
  condition: Condition,
  shape: TaskShape,
  statesOf: (id: string) => States,
): string | undefined {
  const parts = conjuncts(condition)
  for (const part of parts) {
    if (!('any' in part)) continue
    const whys = part.any.map((each) => whyImpossible(each, shape, statesOf))
    if (whys.every((why) => why !== undefined)) return whys[0]
  }
  const leaves = parts.filter((part): part is Leaf => 'task' in part || 'input' in part)
  return whyNoState(parts, shape, statesOf) ?? whyNoValue(leaves)
}

/** The states that are asked of one task, against its rule and against each other. */
function whyNoState(
  parts: readonly Condition[],
  { id, rule }: TaskShape,
  statesOf: (id: string) => States,
): string | undefined {
  const asked = new Map<string, TaskState[]>()
  for (const part of parts) {
    const inner = 'not' in part ? part.not : part
    if (!('task' in inner) || !('in' in inner)) continue
    const { task } = inner
    const wants = (state: TaskState): boolean => inner.in.includes(state) === (inner === part)
    const ruled = statesOf(task)
    if (![...ruled].some(wants)) {
      const words = `${inner === part ? '' : 'not '}${inner.in.join(' or ')}`
      return (
        `can never hold: "${id}" runs under ${rule} only, which rules out that "${task}" is ${words}; ` +
        'use the rule all_done to decide by the condition alone'
      )
    }
    const left = (asked.get(task) ?? [...ruled]).filter(wants)
    if (left.length === 0)
      return (
        `can never hold: no state of "${task}" meets all that is asked of it at once; ` +
        'write {any: […]}, or one {task, in} with all states that are meant'
      )
    asked.set(task, left)
  }
  return undefined
}

/** A value cannot be two things at once. */
function whyNoValue(leaves: readonly Leaf[]): string | undefined {
  const byPlace = Map.groupBy(
    leaves.flatMap((leaf) => ('is' in leaf ? [leaf] : [])),
    (leaf) => ('task' in leaf ? `${leaf.output} of "${leaf.task}"` : `${leaf.input} of the input`),
  )
  for (const [place, asked] of byPlace) {
    const named = asked.map(({ is }) => ('equals' in is ? [is.equals] : 'oneOf' in is ? is.oneOf : undefined))
    const values = named.find((each) => each !== undefined)
    if (values?.some((value) => asked.every(({ is }) => compare(value, is))) !== false) continue
    return `can never hold: no value meets all that is asked of ${place} at once; write {any: […]}, or oneOf`
  }
  return undefined
}

/** Why a rule is met by a cancel or a mark by hand only; undefined: it is met by outcomes, too. */
export function whyHardly(
  { id, needs, rule, teardownOf }: TaskShape,
  byId: ReadonlyMap<string, TaskShape>,
): string | undefined {
  if (teardownOf !== undefined) return undefined
  const parents = needs.flatMap((need) => byId.get(need) ?? [])
  if (rule === 'one_failed' || rule === 'all_failed') {
    const allowed = parents.filter((parent) => parent.allowFailure)
    const blocks = rule === 'all_failed' ? allowed.length > 0 : allowed.length === parents.length
    const [first] = blocks ? allowed : []
    if (first === undefined) return undefined
    return (
      `hardly ever holds: a failure of "${first.id}" is allowed and counts as a success, so that ` +
      `"${id}" runs only where "${first.id}" is canceled or upstream_failed; take allowFailure off ` +
      `"${first.id}", or decide by rule: all_done with when: {task: ${first.id}, in: [failed]}`
    )
  }
  const sure = rule === 'all_skipped' ? parents.find(isNeverSkipped) : undefined
  if (sure === undefined) return undefined
  return (
    `hardly ever holds: nothing but a mark by hand, or a stop of the run, can skip "${sure.id}"; ` +
    `give "${sure.id}" a condition or an outcome "skipped", or use another rule`
  )
}

/** What waits never says by itself that it is skipped, as a job may; above it there is nothing that could. */
const isNeverSkipped = ({ waits, needs, when, mapped, teardownOf }: TaskShape): boolean =>
  waits !== undefined &&
  waits.onTimeout !== 'skipped' &&
  waits.onReject !== 'skipped' &&
  needs.length === 0 &&
  when === undefined &&
  teardownOf === undefined &&
  !mapped
