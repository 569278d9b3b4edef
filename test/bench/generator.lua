-- Sends the requests of a file once each, and prints when it begins and when all have their answers. The file has the
-- length of each request in a line of its own, and then its bytes.
local requests, asked, connections = {}, 0, 0

function init(args)
  connections = tonumber(args[2])
  local file = assert(io.open(args[1], "rb"))
  for line in function() return file:read("*l") end do
    requests[#requests + 1] = file:read(tonumber(line))
  end
  file:close()
end

local function tell(word)
  io.stdout:write(word, "\n")
  io.stdout:flush()
end

-- The first call only shows wrk a request: it is not sent. Connections that ask while others still wait for the last
-- answers repeat the last event, which is a duplicate.
function request()
  asked = asked + 1
  if asked == 2 then tell("begun") end
  if asked == #requests + connections + 2 then
    tell("ended")
    wrk.thread:stop()
  end
  return requests[math.min(math.max(asked - 1, 1), #requests)]
end

function done(summary)
  for kind, count in pairs(summary.errors) do
    if count > 0 then io.stderr:write("wrk: ", count, " errors of the kind ", kind, "\n") end
  end
  local errors = summary.errors
  tell("errors " .. errors.connect + errors.read + errors.write + errors.status + errors.timeout)
end
