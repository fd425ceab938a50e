// People of a test API: invited by an owner's key, and come in with a password that they all share.
import type { TestApi } from './api.ts'

export const password = 'gull-harbour-41-lantern'

let people = 0

/** What it answers is there once the API has started. */
export function peopleRig(given: () => { readonly t: TestApi; readonly ownerKey: string }) {
  async function invite(role: string) {
    const { t, ownerKey: key } = given()
    const email = `person-${people++}@example.com`
    const { body } = await t.call('POST', '/v1/members', { key, body: { email, role } })
    return { email, id: body.id, inviteToken: body.inviteToken }
  }
  const accept = (token: string, more: Record<string, unknown> = {}, headers = {}) =>
    given().t.call('POST', '/v1/invites/accept', {
      key: null,
      headers,
      body: { token, password, answer: 'token', ...more },
    })
  async function member(role: string) {
    const invited = await invite(role)
    const { body } = await accept(invited.inviteToken)
    return { ...invited, token: body.token, sessionId: body.session.id }
  }
  return { invite, accept, member }
}
