/**
 * The address of a server, as clients and workers are given it: checked before anything is asked, without a
 * slash at its end.
 */
import { BelfryError } from '@belfry/contract'

/** Throws `invalid_config`. */
export function baseUrlOf(text: string): string {
  const fault = typeof text === 'string' ? urlFault(text) : 'is missing, or no text'
  if (fault === undefined) return text.replace(/\/+$/, '')
  throw new BelfryError(
    'invalid_config',
    `The URL of the server ${fault}; write it like http://127.0.0.1:4680.`,
    {
      errors: [{ pointer: '/url', message: fault }],
    },
  )
}

function urlFault(text: string): string | undefined {
  if (!URL.canParse(text)) return 'is not an absolute URL'
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'has a scheme other than http and https'
  if (url.username !== '' || url.password !== '') return 'holds credentials, which belong in the API key'
  if (url.search !== '' || url.hash !== '') return 'has a query or fragment'
  return undefined
}
