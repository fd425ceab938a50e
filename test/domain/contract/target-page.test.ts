// The page for owners of targets names the codes that an attempt can fail with, all of them and no others.
// They stand in the code as a type and as literals, so its text is what is looked at.
import { readFileSync } from 'node:fs'
import { httpHandlerSchema } from '@belfry/contract'
import { expect, it } from 'vitest'
import { clientCertificate } from '../../support/client-certificate.ts'

const text = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
const source = (file: string) => text(`packages/server/src/${file}`)

const codesIn = (body: string, pattern: RegExp) =>
  [...body.matchAll(pattern)].flatMap(([, ...codes]) => codes.filter((code) => code !== undefined))

/** `code: 'x'`, `errorCode: y ? 'x' : 'z'`, `refused('x', …)`. */
const literal = /(?:\b(?:code|errorCode): (?:\w+ \? '([a-z_]+)' : )?|\b(?:refused|failed)\()'([a-z_]+)'/g

function codesOfAttempts(): Set<string> {
  const union = /export type EgressErrorCode =([\s\S]*?)\n\n/.exec(source('ports/egress.ts'))?.[1] ?? ''
  const literals = [
    'engine/attempt.ts',
    'engine/executor.ts',
    'engine/identities.ts',
    'engine/rescue-end.ts',
    'adapters/handlers/http/async-call.ts',
    'adapters/handlers/http/http-handler.ts',
    'adapters/handlers/http/oauth2-tokens.ts',
    'adapters/handlers/http/prepared-call.ts',
    'adapters/handlers/http/status-verdict.ts',
    'adapters/handlers/http/verdict.ts',
  ].flatMap((file) => codesIn(source(file), literal))
  // the reason of a run that ends because its time is over is the code as well
  const overdue = /export type Overdue = (.*)/.exec(source('domain/run-limits.ts'))?.[1] ?? ''
  const secrets = /readonly code: (.*)/.exec(source('ports/secrets.ts'))?.[1] ?? ''
  const unions = [union, overdue, secrets].flatMap((text) => codesIn(text, /'([a-z_]+)'/g))
  const codes = new Set([...unions, ...literals])
  // what the handler answers after its timeout is recorded as the engine's own code, whatever it says
  codes.delete('timed_out')
  return codes
}

it('names every code, and none that is not', () => {
  const page = text('docs/how-to/http-targets.md')
  const table = page.slice(page.indexOf('| code |'), page.indexOf('## What Belfry keeps'))
  const named = table.split('\n').flatMap((row) => codesIn(row.split('|')[1] ?? '', /`([a-z_]+)`/g))
  const answers = codesIn(page, /failed, `(http_[a-z]+)`/g)
  expect(new Set([...named, ...answers])).toEqual(codesOfAttempts())
})

it('shows handlers that can be stored', () => {
  const page = text('docs/how-to/http-targets.md')
  const blocks = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  const elided = /-----BEGIN CERTIFICATE-----\\n…\\n-----END CERTIFICATE-----\\n/g
  const handlers = blocks.map((block): unknown =>
    JSON.parse(block.replace(elided, clientCertificate.replaceAll('\n', '\\n'))),
  )
  const faults = handlers.map((handler) => httpHandlerSchema.safeParse(handler).error?.issues)
  expect(faults).toEqual(handlers.map(() => undefined))
  expect(handlers.length).toBeGreaterThan(4)
})
