// What of an HTTP job is judged when it is stored: every URL that it would call and every header that it
// would send, each with a pointer to it.
import { httpHandlerSchema } from '@belfry/contract'
import { expect, test } from 'vitest'
import { judgeUrl, parsePolicy } from '../../../packages/server/src/domain/egress/egress-policy.ts'
import { handlerFaults } from '../../../packages/server/src/domain/egress/handler-faults.ts'
import { headerFaults } from '../../../packages/server/src/domain/egress/header-rules.ts'

const parsed = parsePolicy({ allowCidrs: [] })
if (!parsed.ok) throw new Error('the policy cannot be read')
const { policy } = parsed
const rules = { checkTargetUrl: (url: string) => judgeUrl(url, policy), checkTargetHeaders: headerFaults }

const pointersOf = (more: object): string[] => {
  const handler = httpHandlerSchema.parse({ kind: 'http', url: 'https://example.com/', ...more })
  return handlerFaults(handler, rules).map(({ pointer }) => pointer)
}
const oauth2 = (tokenUrl: string) => ({
  oauth2: { tokenUrl, clientId: 'me', clientSecret: { secret: 'client' } },
})

test.each([
  [{}, []],
  [{ url: 'http://10.0.0.1/' }, ['/handler/url']],
  [oauth2('https://id.example.com/token'), []],
  [oauth2('http://169.254.169.254/latest/'), ['/handler/oauth2/tokenUrl']],
  [
    { url: 'http://localhost/', ...oauth2('http://redis:6379/') },
    ['/handler/url', '/handler/oauth2/tokenUrl'],
  ],
  [{ headers: { 'Metadata-Flavor': 'Google', 'X-A': 'b' } }, ['/handler/headers/Metadata-Flavor']],
  [{ headers: { 'X-A': 'Bearer {{secrets.a}} {{run.id}}', 'X-B': '{{secret:a}}' } }, []],
  [
    { headers: { 'X-A': '{{__proto__.x}}', 'X~B': '{{ run.id }}' } },
    ['/handler/headers/X-A', '/handler/headers/X~0B'],
  ],
  [
    { headers: { X_Forwarded_For: '1.2.3.4', 'x.real_ip': '1.2.3.4', content_length: '1' } },
    ['/handler/headers/X_Forwarded_For', '/handler/headers/x.real_ip', '/handler/headers/content_length'],
  ],
  [
    { headers: { Belfry_Run: '1', webhook_id: '1', METADATA_FLAVOR: 'Google', x_team: 'a' } },
    ['/handler/headers/Belfry_Run', '/handler/headers/webhook_id', '/handler/headers/METADATA_FLAVOR'],
  ],
  [{ body: '{{anything}}' }, []],
])('%j', (more, expected) => expect(pointersOf(more)).toEqual(expected))
