/**
 * Cases about whom Belfry calls: URLs, answers of a resolver, headers, images, functions of Lambda. They go
 * through the schemas of the contract and the egress module itself, with a resolver that answers what the
 * case says, and a dialer that opens nothing.
 */
import { Socket } from 'node:net'
import {
  BelfryError,
  httpHandlerSchema,
  jobCreateSchema,
  type JobCreate,
  maxInputBytes,
  parseImage,
} from '@belfry/contract'
import { systemClock } from '../../adapters/system/clock.ts'
import { type EgressClasses, egressDenied } from '../../domain/container/egress-class.ts'
import { parseAddress } from '../../domain/egress/address.ts'
import type { EgressRanges } from '../../domain/egress/egress-policy.ts'
import { handlerFaults } from '../../domain/egress/handler-faults.ts'
import { judgeName } from '../../domain/egress/name-rules.ts'
import { validatePart } from '../../http/validation.ts'
import type { EgressAgent } from '../../ports/egress.ts'
import type { DialTarget } from '../../security/egress/dial.ts'
import { createEgress } from '../../security/egress/egress.ts'
import { allow, countOf, type Input, isInput, type Judged, refused, sizeMeant } from './judged.ts'

/** An egress module that reaches nothing. */
export interface TargetRig {
  readonly egress: EgressAgent
  /** What the next lookup of a name answers. */
  readonly answers: string[][]
  /** What would have been connected to. */
  readonly dialed: DialTarget[]
  readonly classes: ContainerClasses
}

/** What of the network the operator lets jobs in containers name. */
export type ContainerClasses = Pick<EgressClasses, 'internet' | 'lists'>

export function openTargetRig(ranges: EgressRanges, classes: ContainerClasses): TargetRig {
  const answers: string[][] = []
  const dialed: DialTarget[] = []
  const egress = createEgress({
    ...ranges,
    clock: systemClock,
    resolver: async () =>
      (answers.shift() ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    dial: (target, done) => {
      dialed.push(target)
      queueMicrotask(() => done(new Error('nothing is reached from here'), null))
      return new Socket()
    },
  })
  return { egress, answers, dialed, classes }
}

/** A URL as the target of a job. */
export function judgeTargetUrl(url: unknown, { egress }: TargetRig): Judged {
  const checked = validatePart(httpHandlerSchema, 'body', { kind: 'http', url })
  if ('error' in checked) return asRefusal(checked.error, 'refuse_url')
  const [fault] = handlerFaults(httpHandlerSchema.parse({ kind: 'http', url }), egress)
  return fault === undefined ? allow : refused('refuse_url', fault.code, `The URL ${fault.message}.`)
}

const asRefusal = (error: BelfryError, outcome: string): Judged => refused(outcome, error.code, error.message)

const deniedAt = 'refuse_connect'
const mostLookups = 20

/** Each list of answers is one attempt, with a lookup of its own; one that is refused is what comes of it. */
export async function judgeLookups(input: Input, rig: TargetRig): Promise<Judged> {
  if (isInput(input['env'])) return judgeProxy(input['env'], rig)
  const given = input['answers']
  const url = typeof input['url'] === 'string' ? input['url'] : `https://${String(input['host'])}/`
  const lookups = Array.isArray(given) ? given.slice(0, mostLookups) : [[]]
  for (const answer of lookups) {
    const addresses = Array.isArray(answer) ? answer.map(String) : [String(answer)]
    const judged = await judgeAttempt(url, addresses, rig)
    if (judged !== allow) return judged
  }
  return allow
}

async function judgeAttempt(url: string, addresses: readonly string[], rig: TargetRig): Promise<Judged> {
  rig.dialed.length = 0
  rig.answers.splice(0, Infinity, [...addresses])
  const outcome = await rig.egress.request(callOf(url))
  if (outcome.ok || rig.dialed.length > 0) {
    const used = rig.dialed.flatMap((target) => target.addresses.map(({ address }) => address))
    const checked =
      parseAddress(new URL(url).hostname) !== undefined || used.every((each) => addresses.includes(each))
    return checked
      ? allow
      : refused('connected_elsewhere', 'internal', `It would connect to ${used.join(', ')}.`)
  }
  return refused(deniedAt, outcome.error.code, outcome.error.message)
}

const callOf = (url: string) =>
  ({ method: 'GET', url, headers: {}, signal: AbortSignal.timeout(5_000), keepBytes: 0 }) as const

/** Whether variables of a proxy lead a call around the check: they must change nothing. */
async function judgeProxy(env: Input, rig: TargetRig): Promise<Judged> {
  const before = { ...process.env }
  const target = '192.0.43.7'
  for (const [name, value] of Object.entries(env)) {
    process.env[name] = String(value)
    process.env[name.toLowerCase()] = String(value)
  }
  try {
    rig.dialed.length = 0
    rig.answers.splice(0, Infinity, [target])
    await rig.egress.request(callOf('http://target.example/'))
  } finally {
    for (const name of Object.keys(env).flatMap((each) => [each, each.toLowerCase()])) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  }
  const used = rig.dialed.flatMap(({ addresses }) => addresses.map(({ address }) => address))
  if (used.length === 1 && used[0] === target) return { outcome: 'no_proxy_bypass' }
  return refused('proxy_used', 'internal', `It would connect to ${used.join(', ') || 'nothing'}.`)
}

/** One header, several, so many of them, or a method. */
export function judgeHeader(input: Input, { egress }: TargetRig): Judged {
  const headers = headersOf(input)
  const method = input['method']
  const handler = {
    kind: 'http',
    url: 'https://example.com/hook',
    headers,
    ...(method === undefined ? {} : { method }),
  }
  const checked = validatePart(httpHandlerSchema, 'body', handler)
  if ('error' in checked) return asRefusal(checked.error, 'refuse_400')
  const [fault] = handlerFaults(httpHandlerSchema.parse(handler), egress)
  return fault === undefined ? allow : refused('refuse_400', fault.code, `${fault.pointer} ${fault.message}.`)
}

const headerWords: ReadonlySet<string> = new Set(['name', 'value', 'headers'])

function headersOf(input: Input): Readonly<Record<string, unknown>> {
  if (isInput(input['headers'])) return input['headers']
  const { name, value = '1' } = input
  if (typeof name !== 'string') {
    if (Object.keys(input).every((key) => !headerWords.has(key))) return {}
    throw new BelfryError('invalid_request', 'A header has a name, which is text.')
  }
  const many = /^\(([\d,]+) headers\)$/.exec(name)?.[1]
  if (many !== undefined) {
    const count = Math.min(100_000, Number(many.replaceAll(',', '')))
    return Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-h-${index}`, value]))
  }
  const length = typeof value === 'string' ? sizeMeant(value) : undefined
  // as own keys, whatever they are called
  const sent = length === undefined ? value : 'v'.repeat(countOf(length, 10_000_000, 'value'))
  return Object.fromEntries([[name, sent]])
}

const image = 'registry.example.com/team/app:1.0'
/** Names of the file of cases for what the API calls otherwise. */
const jobWords: Readonly<Record<string, string>> = { cmd: 'command', args: 'command' }

/** A piece of a container job, in a job that is fine without it. */
export function judgeContainer(input: Input, { classes }: TargetRig): Judged {
  const fragment = input['job_spec_fragment'] ?? input
  if (!isInput(fragment)) return refused('refuse_400', 'invalid_request', 'The fragment is no object.')
  const { timeoutSeconds, ...rest } = fragment
  const renamed = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [jobWords[key] ?? key, value]),
  )
  const job = {
    name: 'case',
    handler: { kind: 'container', image, ...renamed },
    ...(timeoutSeconds === undefined ? {} : { attemptTimeoutMs: inMs(timeoutSeconds) }),
  }
  const checked = validatePart(jobCreateSchema, 'body', job)
  if ('error' in checked) return asRefusal(checked.error, 'refuse_400')
  const { handler } = jobCreateSchema.parse(job)
  const denied = handler.kind === 'container' ? egressDenied(handler.egress, classes) : undefined
  if (denied !== undefined) return refused('refuse_400', 'invalid_target', `/handler/egress ${denied}.`)
  return registryRefusal(handler) ?? allow
}

const inMs = (seconds: unknown): unknown => (typeof seconds === 'number' ? seconds * 1_000 : seconds)

/** The list of images of the operator is empty until he writes it, so no private registry is on it. */
function registryRefusal(handler: JobCreate['handler']): Judged | undefined {
  const registry = handler.kind === 'container' ? parseImage(handler.image)?.registry : undefined
  if (registry === undefined || judgeName(registry.replace(/:\d+$/, '')) === 'public') return undefined
  const message = `The registry "${registry}" is inside a private network; the operator has to list it.`
  return refused('refuse_400', 'invalid_target', message)
}

const functionArn = 'arn:aws:lambda:eu-central-1:123456789012:function:report'
const roleArn = 'arn:aws:iam::123456789012:role/belfry-invoke'

/** Fields of a Lambda job, in one that is fine without them. */
export function judgeLambda({ note, payloadBytes, ...fields }: Input): Judged {
  const bytes = typeof payloadBytes === 'number' ? countOf(payloadBytes, Infinity, 'payloadBytes') : 0
  if (bytes > maxInputBytes)
    return refused('refuse_400', 'invalid_request', `An input has ${maxInputBytes} bytes at most.`)
  const withoutRole = typeof note === 'string' && /\bno role\b/i.test(note)
  const handler = { kind: 'lambda', functionArn, ...(withoutRole ? {} : { roleArn }), ...fields }
  const checked = validatePart(jobCreateSchema, 'body', { name: 'case', handler })
  return 'error' in checked ? asRefusal(checked.error, 'refuse_400') : allow
}
