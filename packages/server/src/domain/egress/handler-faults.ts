/**
 * Why an HTTP handler may not be stored, beyond the form that the contract asks for: every URL that it would
 * call, and every header that it would send. The same rules hold again when a call is made.
 */
import { type HttpHandlerDefinition, templateFault } from '@belfry/contract'
import type { EgressFault } from './egress-policy.ts'

export interface TargetRules {
  checkTargetUrl(url: string): EgressFault | undefined
  checkTargetHeaders(headers: Readonly<Record<string, string>>): readonly EgressFault[]
}

const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/** Pointers are into the body of a job: `/handler/url` and the like. */
export function handlerFaults(handler: HttpHandlerDefinition, rules: TargetRules): readonly EgressFault[] {
  const tokenUrl = handler.oauth2 && rules.checkTargetUrl(handler.oauth2.tokenUrl)
  const templates = Object.entries(handler.headers).flatMap(([name, value]): EgressFault[] => {
    const message = templateFault(value)
    if (message === undefined) return []
    return [{ code: 'invalid_target', pointer: `/handler/headers/${escaped(name)}`, message }]
  })
  const url = rules.checkTargetUrl(handler.url)
  return [
    ...(url === undefined ? [] : [url]),
    ...(tokenUrl === undefined ? [] : [{ ...tokenUrl, pointer: '/handler/oauth2/tokenUrl' }]),
    ...rules.checkTargetHeaders(handler.headers),
    ...templates,
  ]
}
