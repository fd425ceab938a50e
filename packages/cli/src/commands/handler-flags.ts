/**
 * Flags that describe a job's handler, shared by `job` and by `schedule create`, and what they mean. Each
 * kind has one flag that names what is called; what has no flag is given as JSON by `--handler`.
 */
import type { Job } from '@belfry/contract'
import { httpMethods, nearest } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { headers } from '../values.ts'
import { given, refuseTogether } from './shared.ts'

export const handlerFlags: readonly FlagSpec[] = [
  {
    name: 'http',
    value: 'url',
    method: true,
    summary: 'Call this URL, by POST unless a method stands before it',
  },
  { name: 'function', value: 'name', summary: 'Run this function, in workers that have it' },
  { name: 'container', value: 'image', summary: 'Run this image, such as docker.io/library/busybox:1.36' },
  { name: 'lambda', value: 'arn', summary: 'Call this function of AWS Lambda; needs --role' },
  {
    name: 'handler',
    value: 'json',
    summary: 'Whole handler as JSON, or `@file`, or `@-` for standard input: for what has no flag',
  },
  { name: 'header', value: 'header', repeat: true, summary: "Header to send, such as 'X-Team: billing'" },
  { name: 'body', value: 'text', summary: 'Body to send as it is; without it the input is sent as JSON' },
  { name: 'body-file', value: 'path', summary: 'Body from a file, `-` for standard input' },
  { name: 'arg', value: 'text', repeat: true, summary: 'Argument for the container, in order' },
  {
    name: 'env',
    value: 'variable',
    repeat: true,
    summary: 'Variable for the container: `NAME=text`, or `NAME=@secret:NAME` for a secret',
  },
  {
    name: 'egress',
    value: 'class',
    summary: 'Network of the container: none (default), internet, or a list of the operator',
  },
  { name: 'role', value: 'arn', summary: 'Role of your AWS account that may call the function' },
]

/** Which flag fills which field of a handler. */
export const handlerFieldFlags: Readonly<Record<string, string>> = {
  '/handler': '--http',
  '/handler/name': '--function',
  '/handler/headers': '--header',
  '/handler/body': '--body',
  '/handler/image': '--container',
  '/handler/command': '--arg',
  '/handler/env': '--env',
  '/handler/egress': '--egress',
  '/handler/functionArn': '--lambda',
  '/handler/roleArn': '--role',
}

type HandlerInput = NonNullable<BodyOf<'scheduleCreate'>['handler']>
type Of<Kind extends HandlerInput['kind']> = Omit<Extract<HandlerInput, { kind: Kind }>, 'kind'>

/** The flag that names what each kind calls, and the flags of its parts. */
const kinds = ['http', 'function', 'container', 'lambda'] as const
const partsOf: Readonly<Record<(typeof kinds)[number], readonly string[]>> = {
  http: ['header', 'body', 'body-file'],
  function: [],
  container: ['arg', 'env', 'egress'],
  lambda: ['role'],
}

/** "POST https://…" or "https://…" as the parser hands it on. */
export function httpTarget(text: string): { method: (typeof httpMethods)[number]; url: string } {
  const [first = '', second, ...more] = text.trim().split(/\s+/)
  if (second === undefined && !isMethod(first)) return { method: 'POST', url: first }
  const method = httpMethods.find((known) => known === first.toUpperCase())
  if (method !== undefined && second !== undefined && more.length === 0) return { method, url: second }
  if (method === undefined && more.length === 0) {
    const near = nearest(first, httpMethods)
    const fix = near === undefined ? `use one of ${httpMethods.join(', ')}` : `did you mean ${near}?`
    throw new UsageError(`--http "${first}" is not a method that is called; ${fix}`)
  }
  throw new UsageError(`--http "${text}" is not a target; write --http POST https://example.com/hook`)
}

const isMethod = (text: string): boolean => (httpMethods as readonly string[]).includes(text.toUpperCase())

/**
 * The handler that the flags describe; undefined when none of the flags that name one is given. Throws when
 * parts come without the flag that they belong to.
 */
export async function handlerFromFlags(call: Call): Promise<HandlerInput | undefined> {
  refuseTogether(call, ...kinds, 'handler')
  const whole = await call.flags.json('handler')
  const kind = kinds.find((each) => call.flags.text(each) !== undefined)
  refuseStrays(call, kind)
  if (whole !== undefined) return whole as HandlerInput
  return kind === undefined ? undefined : namedHandler(call, kind, call.flags.text(kind) ?? '')
}

function refuseStrays(call: Call, kind: (typeof kinds)[number] | undefined): void {
  for (const other of kinds) {
    const [stray] = other === kind ? [] : call.flags.given(partsOf[other])
    if (stray !== undefined) throw new UsageError(`--${stray} needs --${other}: say what to ${verbs[other]}`)
  }
}

const verbs = { http: 'call', function: 'run', container: 'run', lambda: 'call' } as const

async function namedHandler(call: Call, kind: (typeof kinds)[number], text: string): Promise<HandlerInput> {
  switch (kind) {
    case 'http':
      return { kind, ...httpTarget(text), ...(await httpParts(call)) }
    case 'function':
      return { kind, name: text }
    case 'container':
      return { kind, image: text, ...containerParts(call) }
    case 'lambda': {
      const roleArn = call.flags.text('role')
      if (roleArn === undefined)
        throw new UsageError('--lambda needs --role: the role of your account that may call the function')
      return { kind, functionArn: text, roleArn }
    }
    default:
      return kind satisfies never
  }
}

async function httpParts(call: Call): Promise<{ headers?: Record<string, string>; body?: string }> {
  refuseTogether(call, 'body', 'body-file')
  const lines = call.flags.list('header')
  const body = call.flags.text('body') ?? (await call.flags.file('body-file'))
  return given({ headers: lines.length === 0 ? undefined : headers(lines, '--header'), body })
}

function containerParts(call: Call): Partial<Pick<Of<'container'>, 'command' | 'env' | 'egress'>> {
  const [args, variables] = [call.flags.list('arg'), call.flags.list('env')]
  return given({
    command: args.length === 0 ? undefined : [...args],
    env: variables.length === 0 ? undefined : environment(variables),
    egress: call.flags.text('egress'),
  })
}

const secretMark = '@secret:'

function environment(lines: readonly string[]): NonNullable<Of<'container'>['env']> {
  const found = new Map<string, string | { secret: string }>()
  for (const line of lines) {
    const equals = line.indexOf('=')
    if (equals <= 0) throw new UsageError(`--env "${line}" is not a variable; write it like NAME=text`)
    const [name, text] = [line.slice(0, equals), line.slice(equals + 1)]
    if (found.has(name)) throw new UsageError(`--env "${name}" is given twice; keep one of them`)
    found.set(name, text.startsWith(secretMark) ? { secret: text.slice(secretMark.length) } : text)
  }
  return Object.fromEntries(found)
}

/** The handler after an update: parts given replace those of the present one, where it is of their kind. */
export async function handlerForUpdate(call: Call, present: Job['handler']): Promise<HandlerInput> {
  const named = call.flags.given([...kinds, 'handler'])
  if (named.some((name) => name !== present.kind)) return (await handlerFromFlags(call)) ?? present
  refuseStrays(call, present.kind)
  const text = call.flags.text(present.kind)
  switch (present.kind) {
    case 'http':
      return { ...present, ...(text === undefined ? {} : httpTarget(text)), ...(await httpParts(call)) }
    case 'function':
      return { ...present, ...given({ name: text }) }
    case 'container':
      return { ...present, ...given({ image: text }), ...containerParts(call) }
    case 'lambda':
      return { ...present, ...given({ functionArn: text, roleArn: call.flags.text('role') }) }
    default:
      return present satisfies never
  }
}
