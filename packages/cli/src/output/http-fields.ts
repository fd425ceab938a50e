/**
 * The parts of an HTTP job in words, for `belfry job get`: what it sends, by which credentials, what counts
 * as success and what is kept. Secrets show by their names.
 */
import type { HttpHandlerDefinition, Job } from '@belfry/contract'
import { durationWords } from './times.ts'

type Field = readonly [title: string, text: string]

const json = (value: unknown): string => JSON.stringify(value)

function successWords({ statuses, json: field }: NonNullable<HttpHandlerDefinition['success']>): string {
  const status = `status ${(statuses ?? ['2xx']).join(', ')}`
  if (field === undefined) return status
  const values = field.in ?? [field.equals ?? null]
  const place = field.pointer === '' ? 'the response' : field.pointer
  return `${status}, and ${place} is ${values.map(json).join(' or ')}`
}

function captureWords({ bodyBytes, headers = [] }: NonNullable<HttpHandlerDefinition['capture']>): string {
  const some = bodyBytes === undefined ? 'the body' : `${bodyBytes} bytes of the body`
  return [bodyBytes === 0 ? 'nothing of the body' : some, ...headers].join(', ')
}

function tlsWords({ certificate, privateKey, authority }: NonNullable<HttpHandlerDefinition['tls']>): string {
  const own = certificate === undefined ? [] : [`a client certificate, key ${privateKey?.secret ?? ''}`]
  return [...own, ...(authority === undefined ? [] : ['an authority of its own'])].join(', ')
}

export function httpFields(handler: Job['handler']): readonly Field[] {
  if (handler.kind !== 'http') return []
  const { headers, body, success, capture, signing, oauth2, tls, async: later } = handler
  const shown: (Field | undefined)[] = [
    ...Object.entries(headers).map(([name, value]): Field => ['Header', `${name}: ${value}`]),
    ['Body', body ?? 'the input of the run, as JSON'],
    signing && ['Signed by', signing.keys.map(({ secret }) => secret).join(', ')],
    oauth2 && ['Token of', `${oauth2.tokenUrl}, for ${oauth2.clientId}`],
    tls && ['TLS', tlsWords(tls)],
    success && ['Success', successWords(success)],
    capture && ['Keeps', captureWords(capture)],
    later && ['May answer', `202, and report within ${durationWords(later.deadlineMs)}`],
  ]
  return shown.filter((field) => field !== undefined)
}
