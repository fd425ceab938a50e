// Started by times-properties.test.ts under several TZ: prints the zone that the process believes in and the
// times of some schedules, which must not depend on it.

import { compiled, nextTimes } from './schedule-fixtures.ts'

const times = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe'].flatMap((zone) => [
  ...nextTimes(
    compiled({ kind: 'cron', dialect: 'unix', expression: '30 2 * * *', zone }),
    '2026-03-27T00:00:00Z',
    5,
  ),
  ...nextTimes(compiled({ kind: 'at', at: '2026-03-29T02:30:00', zone }), '2026-01-01T00:00:00Z', 1),
  ...nextTimes(
    compiled({ kind: 'calendar', every: 'every 2 weeks on sun at 01:30', anchor: '2026-03-29', zone }),
    '2026-03-01T00:00:00Z',
    4,
  ),
])

process.stdout.write(JSON.stringify({ zone: new Intl.DateTimeFormat().resolvedOptions().timeZone, times }))
