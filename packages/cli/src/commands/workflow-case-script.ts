/**
 * What happens in a case (workflow-cases.ts): how each attempt ends, what branches choose, how many items
 * there are, what runs when the run is stopped; as the script that the simulation plays.
 */
import { usualForEachItems } from '@belfry/contract'
import type * as Workflow from '@belfry/server/workflow'
import type { CaseGraph } from './workflow-case-graph.ts'
import {
  type Case,
  isObject,
  listOf,
  NotApplicable,
  objectIn,
  objectOf,
  onlyKnown,
  own,
  textsOf,
  wholeOf,
  fieldsOf,
} from './workflow-case-words.ts'

type AttemptScript = Workflow.AttemptScript
type ItemOutcomes = Record<number, readonly AttemptScript[]>

/** What a short circuit or a condition came to, by several names. */
const gateFields = ['short_circuit', 'short_circuits', 'returns', 'conditions', 'condition', 'passes']
export const scenarioFields: ReadonlySet<string> = new Set([
  ...fieldsOf(`outcomes item_outcomes items chooses finish_order is_latest_run fail_fast cancel
    run_timeout running_when targets skip approvals`),
  ...gateFields,
])
const stopFields = new Set([
  'when_running',
  'finished',
  'not_started',
  'when',
  'after',
  'after_s',
  'mode',
  'grace',
  'grace_s',
])

/** Where one failure stops the rest, what runs goes on in some systems and is ended in others. */
export function failFastOf(entry: Case, scenario: Case): 'off' | 'finish_running' | 'cancel_running' {
  const said = [scenario['fail_fast'], entry['fail_fast'], ...nodeFailFast(entry)]
  if (said.some((each) => each !== undefined && typeof each !== 'boolean'))
    throw new NotApplicable('fail_fast is neither true nor false')
  if (!said.includes(true)) return 'off'
  return entry['system'] === 'argo' ? 'finish_running' : 'cancel_running'
}

/** Of a matrix that stands alone it is that of the run; beside other tasks it would stop those as well. */
function nodeFailFast(entry: Case): unknown[] {
  const nodes = listOf(entry['nodes']).map(objectOf)
  const said = nodes.filter((node) => node['fail_fast'] !== undefined)
  if (said.length > 0 && nodes.length > 1 && said.some((node) => node['fail_fast'] === true))
    throw new NotApplicable('fail_fast of one node among others is not known here')
  return said.map((node) => node['fail_fast'])
}

/** Throws NotApplicable for what nobody can know, such as an outcome that no attempt has. */
export function scriptOf(scenario: Case, graph: CaseGraph): Workflow.WorkflowScript {
  const known = new Set(graph.nodes.map(({ id }) => id))
  const outcomes = outcomesIn(scenario, graph, known)
  return {
    ...outcomes,
    retries: Object.fromEntries(
      graph.nodes.map(({ id, form }): [string, number] => [
        id,
        wholeOf(form['retries'] ?? 0, 0, `retries of "${id}"`),
      ]),
    ),
    ...itemsIn(scenario, graph),
    chooses: choicesIn(scenario, graph, known),
    finishOrder: namesOf(scenario['finish_order'], known, 'finish_order'),
    ...stopIn(scenario, known, graph),
  }
}

function namesOf(value: unknown, known: ReadonlySet<string>, where: string): string[] {
  const names = textsOf(value)
  const stray = names.find((name) => !known.has(name))
  if (stray !== undefined) throw new NotApplicable(`${where} names "${stray}", which is no node`)
  return names
}

const attemptWords: Readonly<Record<string, AttemptScript>> = {
  ok: 'ok',
  success: 'ok',
  fail: 'fail',
  failed: 'fail',
  error: 'fail',
  fail_final: 'fail_final',
  timeout: 'timeout',
  skip: 'skip',
  skipped: 'skip',
  cancel: 'cancel',
  cancelled: 'cancel',
  canceled: 'cancel',
  approved: 'ok',
  rejected: 'fail_final',
}

function attemptsOf(value: unknown): readonly AttemptScript[] {
  return (Array.isArray(value) ? value : [value]).map((word: unknown) => {
    const known = typeof word === 'string' ? own(attemptWords, word) : undefined
    if (known === undefined) throw new NotApplicable(`attempts do not end as ${JSON.stringify(word)} here`)
    return known
  })
}

/** Items by number, or as a list of lists. Undefined: these are the attempts of one task. */
function itemAttempts(value: unknown): ItemOutcomes | undefined {
  if (!isObject(value) && !(Array.isArray(value) && value.some((each) => Array.isArray(each))))
    return undefined
  return Object.fromEntries(
    Object.entries(value as object).map(([item, each]: [string, unknown]) => {
      return [wholeOf(Number(item), 0, 'the number of an item'), attemptsOf(each)]
    }),
  )
}

/** What a sensor waits for did not come in time: there is no second time. */
const isFinal = (attempt: AttemptScript): AttemptScript => (attempt === 'timeout' ? 'fail_final' : attempt)
const skips = (attempt: AttemptScript): AttemptScript =>
  isFinal(attempt) === 'fail_final' ? 'skip' : attempt

function outcomesIn(
  scenario: Case,
  graph: CaseGraph,
  known: ReadonlySet<string>,
): Pick<Workflow.WorkflowScript, 'outcomes' | 'itemOutcomes'> {
  const outcomes = new Map<string, readonly AttemptScript[]>()
  const items = new Map<string, ItemOutcomes>()
  for (const id of textsOf(scenario['skip'])) outcomes.set(id, ['skip'])
  for (const field of ['outcomes', 'item_outcomes', 'approvals']) {
    for (const [name, value] of Object.entries(objectIn(scenario, field))) {
      // "work[2]" is an item of "work", unless there is such a node
      const [, mapped, item] = known.has(name) ? [] : (/^(.+)\[(\d+)\]$/.exec(name) ?? [])
      const byItem = itemAttempts(value)
      if (mapped !== undefined) items.set(mapped, { ...items.get(mapped), [Number(item)]: attemptsOf(value) })
      else if (byItem !== undefined) items.set(name, { ...items.get(name), ...byItem })
      else outcomes.set(name, attemptsOf(value))
    }
  }
  namesOf([...outcomes.keys(), ...items.keys()], known, 'outcomes')
  for (const { id, form } of graph.nodes) {
    const its = outcomes.get(id)
    if (form['kind'] === 'sensor' && its !== undefined)
      outcomes.set(id, its.map(form['soft_fail'] === true ? skips : isFinal))
  }
  return { outcomes: Object.fromEntries(outcomes), itemOutcomes: Object.fromEntries(items) }
}

/** How many items each mapped node has; null: there is no list, or one that is too long. */
function itemsIn(
  scenario: Case,
  graph: CaseGraph,
): Pick<Workflow.WorkflowScript, 'itemCounts' | 'itemSources'> {
  const said = objectIn(scenario, 'items')
  const counts = new Map<string, number | null>(Object.entries(graph.fixedCounts))
  const sources = new Map<string, readonly string[]>()
  for (const { id, form } of graph.nodes) {
    const from = own(graph.sources, id)
    if (from === undefined) continue
    const most = maxItemsOf(form)
    const given = [...(own(said, id) === undefined ? from : [id])].map((source) => own(said, source))
    const [only] = from
    if (from.length > 0) sources.set(id, from)
    if (given.length > 0 && given.every((each) => each !== undefined)) counts.set(id, lengthOf(given, most))
    else if (from.length === 1 && only !== undefined && own(graph.sources, only) !== undefined) continue
    else if (!counts.has(id)) throw new NotApplicable(`it is not said how many items "${id}" has`)
  }
  return { itemCounts: Object.fromEntries(counts), itemSources: Object.fromEntries(sources) }
}

export const maxItemsOf = (form: Case): number =>
  form['max_items'] === undefined ? usualForEachItems : wholeOf(form['max_items'], 1, 'max_items')

function lengthOf(lists: readonly unknown[], most: number): number | null {
  const sizes = lists.map((list) => {
    if (Array.isArray(list)) return list.length
    return typeof list === 'number' && Number.isSafeInteger(list) && list >= 0 ? list : null
  })
  if (sizes.includes(null)) return null
  const product = sizes.reduce<number>((made, size) => made * (size ?? 0), 1)
  return product > most ? null : product
}

/** Children that are chosen: none where a gate is shut, all of them where it is open. */
function choicesIn(
  scenario: Case,
  graph: CaseGraph,
  known: ReadonlySet<string>,
): Record<string, readonly string[]> {
  const gates = objectIn(scenario, gateFields.find((field) => field in scenario) ?? '')
  const choices = new Map<string, readonly string[]>()
  const gate = (id: string, open: boolean): void => {
    choices.set(
      id,
      open ? graph.shapes.filter(({ needs }) => needs.includes(id)).map((shape) => shape.id) : [],
    )
  }
  for (const { id, kind } of graph.nodes) {
    if (kind === 'latest_only') gate(id, scenario['is_latest_run'] !== false)
    else if (kind === 'short_circuit') gate(id, true)
  }
  const plain = new Set(graph.nodes.flatMap(({ id, kind }) => (kind === 'task' ? [id] : [])))
  for (const [id, open] of Object.entries(gates)) {
    if (plain.has(id) && ('conditions' in scenario || 'condition' in scenario))
      throw new NotApplicable(`a condition of "${id}" is said by "when" of the node`)
    if (typeof open !== 'boolean') throw new NotApplicable(`what "${id}" came to is neither true nor false`)
    gate(id, open)
  }
  for (const [id, chosen] of Object.entries(objectIn(scenario, 'chooses'))) {
    if (typeof chosen === 'boolean') gate(id, chosen)
    else choices.set(id, chosen === null ? [] : textsOf(chosen))
  }
  namesOf([...choices.keys()], known, 'chooses')
  return Object.fromEntries(choices)
}

/** "work[2]" runs while "work" does, unless there is such a node. */
const withoutItem = (known: ReadonlySet<string>) => (name: string) =>
  known.has(name) ? name : name.replace(/\[\d+\]$/, '')

/** What stops the run, and which tasks run until then. */
function stopIn(
  scenario: Case,
  known: ReadonlySet<string>,
  { nodes }: CaseGraph,
): Pick<Workflow.WorkflowScript, 'slow' | 'stop' | 'unstarted'> {
  const [name] = (['cancel', 'run_timeout'] as const).filter((field) => isObject(scenario[field]))
  const also = Object.values(objectIn(scenario, 'running_when')).flatMap((each) =>
    namesOf(textsOf(each).map(withoutItem(known)), known, 'running_when'),
  )
  if (name === undefined) {
    const said = ['cancel', 'run_timeout'].find((field) => scenario[field] !== undefined)
    if (said !== undefined) throw new NotApplicable(`it is not said what runs at the time of "${said}"`)
    return { slow: also, stop: undefined, unstarted: [] }
  }
  const form = objectOf(scenario[name])
  onlyKnown(form, stopFields, `"${name}"`)
  if (['terminate', 'force', 'kill'].includes(String(form['mode'])))
    throw new NotApplicable('a run is canceled, and never ended without its clean-up')
  const [running, finished, not] = ['when_running', 'finished', 'not_started'].map((field) =>
    form[field] === undefined ? undefined : namesOf(form[field], known, field),
  )
  if (running === undefined && finished === undefined && not === undefined)
    throw new NotApplicable(`it is not said what runs at the time of "${name}"`)
  const rest = [running, not].some((names) => (names ?? []).length > 0) ? [] : nodes.map(({ id }) => id)
  const ended = new Set(finished)
  const atWork = new Set(running)
  const open = [...(running ?? []), ...(not ?? []), ...rest].filter((id) => !ended.has(id))
  const unstarted = open.filter((id) => !atWork.has(id))
  return {
    slow: [...new Set([...open, ...also])],
    stop: name === 'cancel' ? 'canceled' : 'timed_out',
    unstarted,
  }
}
