// Skips a suite whose service is missing, with the reason in its report. scripts/test.ts treats a missing
// service of the machine as a failure where CI=true, so a suite can never vanish there without notice.
import { beforeEach, describe } from 'vitest'
import { type ServiceName, serviceNamed } from './services.ts'

/** `describe` for a suite that runs only where the service is found; `body` gets the place of the service. */
export function describeNeeding(name: ServiceName, title: string, body: (place: string) => void): void {
  const service = serviceNamed(name)
  const place = service.find()
  if (place !== undefined) {
    describe(title, () => body(place))
    return
  }
  describe(title, () => {
    beforeEach((context) => context.skip(`needs ${name} (${service.purpose})`))
    body(`${name} is missing`)
  })
}
