// Rows that show what flow control costs a queue that uses it. The limits are so wide that they hold nothing up.
export const flowCases = [
  { title: 'with a limit', flow: 'limit' },
  { title: 'with a breaker', flow: 'breaker' },
  { title: 'with 1,000 groups', flow: 'groups' },
]
