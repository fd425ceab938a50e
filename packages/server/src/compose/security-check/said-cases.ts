/**
 * Cases about what people write down: times, workflows, templates, signatures. They go through what the API
 * checks definitions by.
 */
import {
  type BelfryError,
  jobCreateSchema,
  leastPauseMs,
  quickRetries,
  runCreateSchema,
  scheduleCreateSchema,
  templateFault,
  workflowFileSchema,
} from '@belfry/contract'
import { readSigningKey, signatureHeaders, verifySignature } from '@belfry/contract/signature'
import { retryDelayMs } from '../../domain/retry.ts'
import { definitionFaults } from '../../domain/workflow/definition.ts'
import { planNewSchedule } from '../../engine/catalog/schedule-editor.ts'
import { tooOften } from '../../engine/quotas/quota-keeper.ts'
import { leastIntervalMs } from '../../engine/quotas/schedule-interval.ts'
import { validatePart } from '../../http/validation.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import { allow, countOf, type Input, type Judged, refusalOf, refused, textOf } from './judged.ts'

const id = '01900000-0000-7000-8000-000000000000'
const handler = { kind: 'http', url: 'https://example.com/hook' }

const asRefusal = (error: BelfryError): Judged => refused('refuse_400', error.code, error.message)

export interface Times {
  readonly zones: ZoneSource
  readonly nowMs: number
  /** Quota of the tenant that asks. */
  readonly leastIntervalMs: number
}

/** An expression, or a zone, as those of a schedule. */
export async function judgeSchedule(input: Input, times: Times): Promise<Judged> {
  const { cron = '0 0 * * *', dialect, timeZone, zone = timeZone } = input
  const body = {
    name: 'case',
    job: 'case',
    cron,
    ...(dialect === undefined ? {} : { dialect }),
    ...(zone === undefined ? {} : { zone }),
  }
  const checked = validatePart(scheduleCreateSchema, 'body', body)
  if ('error' in checked) return asRefusal(checked.error)
  return refusalOf(() => {
    const { zones, nowMs } = times
    const { settings } = planNewSchedule(id, scheduleCreateSchema.parse(body), { zones, nowMs })
    const is = leastIntervalMs(id, settings, zones, nowMs)
    if (is !== null) tooOften(times.leastIntervalMs, is, '/cron')
  })
}

/** When a run is to begin. */
export function judgeRunAt(runAt: unknown): Judged {
  const checked = validatePart(runCreateSchema, 'body', { job: 'case', runAt })
  return 'error' in checked ? asRefusal(checked.error) : allow
}

const retryWords: Readonly<Record<string, string>> = {
  backoffMs: 'baseMs',
  baseMs: 'baseMs',
  retries: 'maxAttempts',
  maxRetries: 'maxAttempts',
  attempts: 'maxAttempts',
  maxAttempts: 'maxAttempts',
}

/** Fields of a job that cases name by themselves. */
const jobWords: Readonly<Record<string, string>> = {
  attemptTimeoutMs: 'attemptTimeoutMs',
  timeoutMs: 'attemptTimeoutMs',
  name: 'name',
  jobName: 'name',
  job_name: 'name',
  priority: 'priority',
  queue: 'queue',
}

export const isJobCase = (input: Input): boolean =>
  Object.keys(input).some((name) => Object.hasOwn(retryWords, name) || Object.hasOwn(jobWords, name))

const fieldsOf = (input: Input, words: Readonly<Record<string, string>>): Input =>
  Object.fromEntries(
    Object.entries(input).flatMap(([name, value]): [string, unknown][] => {
      const field = Object.hasOwn(words, name) ? words[name] : undefined
      return field === undefined ? [] : [[field, value]]
    }),
  )

/** Fields of a job, the policy of retries among them, in a job that is fine without them. */
export function judgeJob(input: Input): Judged {
  const job = { name: 'case', handler, ...fieldsOf(input, jobWords), retry: fieldsOf(input, retryWords) }
  const checked = validatePart(jobCreateSchema, 'body', job)
  if ('error' in checked) return asRefusal(checked.error)
  // a hot loop, if it were taken at its word
  const policy = { ...jobCreateSchema.parse(job).retry, jitter: 'none' as const }
  const isHot =
    policy.baseMs === 0 && retryDelayMs(policy, policy.maxAttempts + quickRetries, 0) >= leastPauseMs
  return isHot ? { outcome: 'floor applied' } : allow
}

interface Task {
  readonly id: string
  readonly needs: readonly string[]
}

/** A workflow in words: `a->b->a`, `chain of 50,000`, `two steps with one id`, `step id "x", "y"`. */
export function judgeWorkflow(dag: unknown): Judged {
  if (typeof dag !== 'string') return workflowOf(Array.isArray(dag) ? (dag as Task[]) : [])
  const ids = /\bids?\b/.test(dag) ? [...dag.matchAll(/"([^"]*)"/g)].map(([, name = '']) => name) : []
  if (ids.length > 0) return judgeIds(ids)
  const tasks = tasksOf(dag)
  return tasks === undefined
    ? { notApplicable: 'says no workflow that can be read: write it as a->b, or as a list of tasks' }
    : workflowOf(tasks)
}

function judgeIds(ids: readonly string[]): Judged {
  for (const each of ids) {
    const judged = workflowOf([
      { id: each, needs: [] },
      { id: 'last', needs: [each] },
    ])
    if (judged !== allow) return judged
  }
  return { outcome: 'works as an ordinary id' }
}

function tasksOf(text: string): readonly Task[] | undefined {
  if (/^[^\s>,;]+(?:\s*->\s*[^\s>,;]+)+(?:\s*[,;]\s*[^\s>,;]+(?:\s*->\s*[^\s>,;]+)*)*$/.test(text))
    return ofArrows(text)
  const [, digits = ''] = /\b([\d,]{2,})\b/.exec(text) ?? []
  const many = Math.min(200_000, Number(digits.replaceAll(',', '')))
  const name = (index: number): string => `t${index}`
  const list = (needs: (index: number) => string[]): Task[] =>
    Array.from({ length: many }, (_, index) => ({ id: name(index), needs: needs(index) }))
  if (/\bchain\b/.test(text) && many > 0) return list((index) => (index === 0 ? [] : [name(index - 1)]))
  if (/\b(?:one|same) (?:id|name)\b|\bduplicate\b/.test(text))
    return [
      { id: 'a', needs: [] },
      { id: 'a', needs: [] },
    ]
  if (/\b(?:unknown|missing)\b/.test(text)) return [{ id: 'a', needs: ['nowhere'] }]
  if (/\bempty\b|\bno (?:steps|tasks|nodes)\b/.test(text)) return []
  return many > 0 && /\b(?:steps|tasks|nodes|fan)/.test(text) ? list(() => []) : undefined
}

function ofArrows(text: string): readonly Task[] {
  const needs = new Map<string, Set<string>>()
  for (const part of text.split(/[,;]/)) {
    const names = part.split('->').map((each) => each.trim())
    for (const [index, name] of names.entries()) {
      const its = needs.get(name) ?? new Set<string>()
      const before = names[index - 1]
      if (before !== undefined) its.add(before)
      needs.set(name, its)
    }
  }
  return [...needs].map(([name, its]) => ({ id: name, needs: [...its] }))
}

function workflowOf(tasks: readonly Task[]): Judged {
  const file = { name: 'case', tasks: tasks.map((task) => ({ ...task, handler })) }
  const checked = validatePart(workflowFileSchema, 'body', file)
  if ('error' in checked) return asRefusal(checked.error)
  const [fault] = definitionFaults(workflowFileSchema.parse(file))
  return fault === undefined
    ? allow
    : refused('refuse_400', 'invalid_request', `${fault.pointer} ${fault.message}.`)
}

/** In a header a template is refused unless it is of the closed list; anywhere else there are none. */
export function judgeTemplate(input: Input): Judged {
  const ofHeader = input['header_template'] ?? input['header']
  if (typeof ofHeader !== 'string') return { outcome: 'left_as_literal_text' }
  const fault = templateFault(ofHeader)
  return fault === undefined ? allow : refused('refuse_400', 'invalid_target', `The header ${fault}.`)
}

const usualSecret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

/** A message that came, signed; or how ours are made. */
export function judgeSignature(input: Input): Judged {
  const { attempts, signature, secret, id: given, timestamp, body, receiver_clock: clock } = input
  if (typeof attempts === 'number') return judgeAttempts(countOf(attempts, 100, 'attempts'))
  if (signature === undefined && typeof given === 'string') return judgeMessageId(given)
  const headers = {
    'webhook-id': textOf(given),
    'webhook-timestamp': textOf(timestamp),
    'webhook-signature': textOf(signature),
  }
  const nowMs = (typeof clock === 'number' ? clock : Number(timestamp)) * 1_000
  const key = textOf(secret)
  try {
    const verdict = verifySignature({ headers, body: textOf(body), keys: [key], nowMs })
    return verdict.ok ? { outcome: 'accept' } : { outcome: 'reject', code: verdict.reason }
  } catch (error) {
    if (error instanceof TypeError) return { outcome: 'reject', code: 'not_a_key' }
    throw error
  }
}

/** Ids of messages are those of runs. */
const judgeMessageId = (given: string): Judged =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(given)
    ? allow
    : { outcome: 'never_produced', code: 'not_a_run_id' }

function judgeAttempts(attempts: number): Judged {
  const key = readSigningKey(usualSecret)
  if (key === undefined) throw new Error('The key of this judge is none.')
  const sent = Array.from({ length: attempts }, (_, index) =>
    signatureHeaders({ id, timestamp: 1_700_000_000 + index, body: '{}' }, [key]),
  )
  const different = (name: keyof (typeof sent)[number]): number =>
    new Set(sent.map((each) => each[name])).size
  const holds =
    different('webhook-id') === 1 &&
    different('webhook-timestamp') === attempts &&
    different('webhook-signature') === attempts
  const words = 'same webhook-id, new webhook-timestamp and signature on every attempt'
  return { outcome: holds ? words : 'the same signature twice' }
}
